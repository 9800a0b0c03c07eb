import type { BackgroundPort } from "../attempt/call.ts";
import type { Clock } from "./clock.ts";

/**
 * Where background work (drains, release requests) lives on runtimes whose process outlives a request: a set of promises, awaited at
 * shutdown. Platforms that freeze or kill after a response have `waitUntil` instead; that is an adapter of the same port.
 */
export class PromiseSet implements BackgroundPort {
  readonly #running = new Set<Promise<unknown>>();

  run(task: Promise<unknown>): void {
    this.#running.add(task);
    const forget = () => {
      this.#running.delete(task);
    };
    task.then(forget, forget);
  }

  get size(): number {
    return this.#running.size;
  }

  /** Resolves when nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }
}

/** How long a request's context is held after its end, for what still follows from closing its legs. */
const CLOSING_MS = 50;

/** What platforms with `waitUntil` (Workers, Vercel, a Durable Object's state) hand to each request. */
export interface WaitUntil {
  waitUntil(task: Promise<unknown>): void;
}

/**
 * The `waitUntil` of one request's context. The context is held until the response is over: a client that leaves would otherwise end it
 * before the router has let go of the workers, and their counters would stay up for ever. `flush` runs after each piece of work and at
 * the end, for what gathers between requests (spans).
 */
export class RequestBackground implements BackgroundPort {
  readonly #context: WaitUntil;
  readonly #clock: Clock;
  readonly #flush: () => Promise<unknown>;
  #over: (() => void) | undefined;

  constructor(context: WaitUntil, clock: Clock, flush: () => Promise<unknown>) {
    this.#context = context;
    this.#clock = clock;
    this.#flush = flush;
    const over = new Promise<void>((resolve) => {
      this.#over = resolve;
    });
    context.waitUntil(over.then(flush));
  }

  run(task: Promise<unknown>): void {
    this.#context.waitUntil(task.then(this.#flush, this.#flush));
  }

  ended(): void {
    const over = this.#over;
    this.#over = undefined;
    // A leg that was closed just now gives its worker back when it hears of it.
    if (over !== undefined) this.#clock.after(CLOSING_MS, over);
  }
}
