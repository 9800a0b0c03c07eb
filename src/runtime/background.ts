import type { BackgroundPort } from "../attempt/call.ts";

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

/** The `waitUntil` of one request's context (Workers, Vercel and the like). */
export function waitUntilPort(context: { waitUntil(task: Promise<unknown>): void }): BackgroundPort {
  return { run: (task) => context.waitUntil(task) };
}
