import type { Answer, ClientSource } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { ClientGone } from "../errors/failure.ts";
import { within } from "../runtime/clock.ts";
import { serverTiming } from "../telemetry/server-timing.ts";
import { AnswerHeaders } from "./answer-headers.ts";
import type { RouteDeps } from "./deps.ts";
import { KeepAliveSource } from "./keep-alive.ts";

const encoder = new TextEncoder();
const buffered = new AnswerHeaders({ "content-type": "application/json" });
/** An answer of which nothing is known yet. */
const NONE: Pick<Answer, "headers"> = { headers: [] };
const streamed = new AnswerHeaders({
  "content-type": "text/event-stream; charset=utf-8",
  // Keep proxies between here and the client from collecting the stream (contract section 7).
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
});

/** Awaits a streamed call's answer, with comments until it comes. Rejects with a Failure as long as no status is promised. */
export async function respondInTime(call: Call, pending: Promise<Answer>, deps: RouteDeps): Promise<Response> {
  const { keepAliveMs } = deps.services.config.timeouts;
  const { clock, telemetry } = deps.services;
  const early = await within(pending, keepAliveMs, clock);
  if (early !== undefined) return toResponse(call, early, deps);
  call.record.status = 200;
  const source = new KeepAliveSource(call, pending, keepAliveMs, clock, telemetry.mask);
  const body = deps.clientStream(source, () => call.leave());
  return new Response(body, { headers: headersOf(call, NONE, streamed, deps) });
}

export function toResponse(call: Call, answer: Answer, deps: RouteDeps): Response {
  switch (answer.kind) {
    case "stream": {
      const body = deps.clientStream(answer.source, () => call.leave());
      return new Response(body, { headers: headersOf(call, answer, streamed, deps) });
    }
    case "text-stream": {
      call.record.committedAt = deps.services.clock.now();
      const body = deps.clientStream(new WholeStream(call, answer.text), () => call.leave());
      return new Response(body, { headers: headersOf(call, answer, streamed, deps) });
    }
    case "buffered":
      return whole(call, answer.body, headersOf(call, answer, buffered, deps));
  }
}

function headersOf(call: Call, answer: Pick<Answer, "headers">, kind: AnswerHeaders, deps: RouteDeps): Headers {
  const { record, limits } = call;
  const headers = kind.of(record);
  // Only for those who ask: contract section 7 lists what a client gets unasked.
  const timed = call.wantsTiming && kind === buffered;
  if (answer.headers.length === 0 && limits.length === 0 && !timed) return headers;
  const { clock, telemetry } = deps.services;
  if (timed) headers.set("server-timing", serverTiming(record, clock.now()));
  // The engine's `x-ratelimit-*`, and over them those of the client's own key.
  for (const [name, value] of answer.headers) headers.set(name, telemetry.mask(value));
  for (const [name, value] of limits) headers.set(name, value);
  return headers;
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
    call.onStop((why) => call.done(why));
  }

  next(): Promise<Uint8Array | undefined> {
    const bytes = this.#bytes;
    this.#bytes = undefined;
    if (bytes === undefined) this.#call.done(undefined);
    else this.#call.record.bytesOut = bytes.length;
    return Promise.resolve(bytes);
  }
}

function whole(call: Call, text: string, headers: Headers): Response {
  call.record.status = 200;
  const body = encoder.encode(text);
  call.record.bytesOut = body.length;
  call.done(call.stopped instanceof ClientGone ? call.stopped : undefined);
  return new Response(body, { headers });
}
