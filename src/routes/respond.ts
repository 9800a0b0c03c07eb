import type { Answer, ClientSource } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { ClientGone } from "../errors/failure.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import { serverTiming } from "../telemetry/server-timing.ts";
import type { RouteDeps } from "./deps.ts";
import { KeepAliveSource, within } from "./keep-alive.ts";

const encoder = new TextEncoder();

/** Awaits a streamed call's answer, with comments until it comes. Rejects with a Failure as long as no status is promised. */
export async function respondInTime(call: Call, pending: Promise<Answer>, deps: RouteDeps): Promise<Response> {
  const { keepAliveMs } = deps.services.config.timeouts;
  const { clock, telemetry } = deps.services;
  const early = await within(pending, keepAliveMs, clock);
  if (early !== undefined) return toResponse(call, early, deps);
  call.record.status = 200;
  const source = new KeepAliveSource(call, pending, keepAliveMs, clock, telemetry);
  return new Response(
    deps.clientStream(source, () => call.leave()),
    { headers: streamHeaders(call) },
  );
}

export function toResponse(call: Call, answer: Answer, deps: RouteDeps): Response {
  switch (answer.kind) {
    case "stream": {
      const headers = streamHeaders(call);
      passOn(headers, answer.headers, call, deps);
      return new Response(
        deps.clientStream(answer.source, () => call.leave()),
        { headers },
      );
    }
    case "text-stream": {
      const headers = streamHeaders(call);
      passOn(headers, answer.headers, call, deps);
      call.record.committedAt = deps.services.clock.now();
      return new Response(
        deps.clientStream(new WholeStream(call, answer.text), () => call.leave()),
        { headers },
      );
    }
    case "buffered": {
      const headers = routerHeaders(call, answer.contentType);
      // Only for those who ask: contract section 7 lists what a client gets unasked.
      if (call.wantsTiming) headers["server-timing"] = serverTiming(call.record, deps.services.clock.now());
      passOn(headers, answer.headers, call, deps);
      return whole(call, answer.body, headers);
    }
  }
}

/** The engine's `x-ratelimit-*`, and over them those of the client's own key. */
function passOn(headers: Record<string, string>, passed: Answer["headers"], call: Call, deps: RouteDeps): void {
  const { mask } = deps.services.telemetry;
  for (const [name, value] of passed) headers[name] = mask(value);
  for (const [name, value] of call.limits) headers[name] = value;
}

/**
 * A stream that is known already: a terminal prefill answer. It is still a stream to the client, without a length. Its call is over
 * when it has been pulled, or when it is stopped before.
 */
class WholeStream implements ClientSource {
  readonly #call: Call;
  #bytes: Uint8Array | undefined;

  constructor(call: Call, text: string) {
    this.#call = call;
    this.#bytes = encoder.encode(text);
    call.record.status = 200;
    call.record.bytesOut = this.#bytes.length;
    call.onStop((why) => call.done(why));
  }

  next(): Promise<Uint8Array | undefined> {
    const bytes = this.#bytes;
    this.#bytes = undefined;
    if (bytes === undefined) this.#call.done(undefined);
    return Promise.resolve(bytes);
  }
}

function whole(call: Call, text: string, headers: Record<string, string>): Response {
  call.record.status = 200;
  const body = encoder.encode(text);
  call.record.bytesOut = body.length;
  call.done(call.stopped instanceof ClientGone ? call.stopped : undefined);
  return new Response(body, { headers });
}

/** Keeps proxies between here and the client from collecting the stream (contract section 7). */
function streamHeaders(call: Call): Record<string, string> {
  const headers = routerHeaders(call, "text/event-stream; charset=utf-8");
  headers["cache-control"] = "no-cache, no-transform";
  headers["x-accel-buffering"] = "no";
  return headers;
}

function routerHeaders({ record }: Call, contentType: string): Record<string, string> {
  return noteWay({ "content-type": contentType, "x-request-id": record.id }, record);
}

/** Adds which way a request went, by names and never by addresses; nothing where no worker was chosen (contract section 7). */
export function noteWay(headers: Record<string, string>, record: RequestRecord): Record<string, string> {
  if (record.path !== "") headers["x-router-path"] = record.path;
  if (record.pool !== "") headers["x-router-pool"] = record.pool;
  if (record.prefill !== "") headers["x-router-prefill"] = record.prefill;
  if (record.decode !== "") headers["x-router-decode"] = record.decode;
  return headers;
}
