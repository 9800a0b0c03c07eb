import type { Clock } from "../runtime/clock.ts";
import type { SimulatedEngine } from "./engine.ts";
import type { Script, SimRequest, Step } from "./script.ts";
import { ClientLeft, orLeft, sleep, systemClock } from "./time.ts";

/** How an in-process request fails where a socket would have broken: the shape of a runtime's fetch error. */
export class ConnectionBroken extends TypeError {
  override readonly name = "ConnectionBroken";
  readonly code: "ECONNRESET" | "ECONNREFUSED";
  constructor(code: "ECONNRESET" | "ECONNREFUSED") {
    super(code === "ECONNRESET" ? "The socket connection was closed unexpectedly" : "Unable to connect");
    this.code = code;
  }
}

/**
 * Plays an engine in-process: a function that can stand where `fetch` does. A reset or a missing terminator rejects the
 * pending read, as the runtimes do; `hang` leaves it pending until the request's signal aborts or the body is cancelled.
 */
export function respond(engine: SimulatedEngine): (request: Request) => Promise<Response> {
  const clock = engine.options.clock ?? engine.options.fabric?.clock ?? systemClock;
  return async function respondTo(request: Request): Promise<Response> {
    if (engine.dead) throw new ConnectionBroken("ECONNREFUSED");
    const gone = new AbortController();
    const signal = AbortSignal.any([request.signal, gone.signal]);
    const body = await request.text();
    const { method, headers } = request;
    const sim: SimRequest = { method, path: new URL(request.url).pathname, headers, body, signal };
    // An aborted caller must not wait for the engine to notice.
    try {
      const script = await orLeft(engine.handle(sim), signal);
      if (script.headDelayMs) await sleep(clock, script.headDelayMs, signal);
      if (script.noHead) return await endWithoutHead(script, signal);
      const ready = bufferedBody(script);
      if (ready !== undefined) {
        script.onEnd?.("sent");
        return new Response(ready, { status: script.status, headers: headersOf(script) });
      }
      return new Response(bodyOf(script, clock, signal, gone), { status: script.status, headers: headersOf(script) });
    } catch (error) {
      if (error instanceof ClientLeft) throw request.signal.reason ?? error;
      throw error;
    }
  };
}

async function endWithoutHead(script: Script, signal: AbortSignal): Promise<never> {
  if (script.ending === "hang") await orLeft(new Promise<never>(() => {}), signal).catch(rethrowAfter(script));
  script.onEnd?.("sent");
  throw new ConnectionBroken("ECONNRESET");
}

function rethrowAfter(script: Script): (error: unknown) => never {
  return function rethrow(error: unknown): never {
    script.onEnd?.("aborted");
    throw error;
  };
}

/** A complete answer needs no reader: a socket would take it at once. */
function bufferedBody(script: Script): string | undefined {
  if (script.ending !== "clean" || Symbol.asyncIterator in script.steps) return undefined;
  let text = "";
  for (const step of script.steps) {
    if (step.delayMs || step.wait !== undefined || typeof step.bytes !== "string") return undefined;
    text += step.bytes;
  }
  return text;
}

function headersOf(script: Script): Headers {
  const headers = new Headers();
  for (const [name, value] of script.headers) headers.append(name, value);
  return headers;
}

function bodyOf(script: Script, clock: Clock, signal: AbortSignal, gone: AbortController): ReadableStream<Uint8Array> {
  const iterator = Symbol.asyncIterator in script.steps ? script.steps[Symbol.asyncIterator]() : undefined;
  const list = iterator === undefined ? [...(script.steps as readonly Step[])] : [];
  const encoder = new TextEncoder();

  async function next(): Promise<Step | undefined> {
    if (iterator === undefined) return list.shift();
    const result = await iterator.next();
    return result.done ? undefined : result.value;
  }

  // One step is fetched ahead, as a socket's buffer would take it: the engine is through when its last byte is out, not
  // when a reader asks for one more.
  let ahead: Promise<Step | undefined> | undefined;
  let ended = false;

  function finish(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (ended) return;
    ended = true;
    script.onEnd?.("sent");
    if (script.ending === "clean") controller.close();
    else controller.error(new ConnectionBroken("ECONNRESET"));
  }

  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const step = await orLeft(ahead ?? next(), signal);
      if (step === undefined) {
        if (script.ending === "hang") await orLeft(new Promise<never>(() => {}), signal);
        return finish(controller);
      }
      if (step.wait !== undefined) await orLeft(typeof step.wait === "function" ? step.wait() : step.wait, signal);
      if (step.delayMs) await sleep(clock, step.delayMs, signal);
      controller.enqueue(typeof step.bytes === "string" ? encoder.encode(step.bytes) : step.bytes);
      ahead = next();
      ahead.then(function close(following) {
        if (following === undefined && script.ending === "clean" && !signal.aborted) finish(controller);
      }, ignore);
    } catch (error) {
      if (ended) return;
      ended = true;
      script.onEnd?.("aborted");
      void iterator?.return?.()?.catch(ignore);
      controller.error(error instanceof ClientLeft ? (signal.reason ?? error) : error);
    }
  }

  function cancel(): void {
    ended = true;
    script.onEnd?.("aborted");
    gone.abort();
    void iterator?.return?.()?.catch(ignore);
  }

  return new ReadableStream<Uint8Array>({ pull, cancel }, { highWaterMark: 0 });
}

function ignore(): void {}
