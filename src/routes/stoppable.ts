import type { TriedCall } from "../attempt/tries.ts";
import type { ClientGone, Failure } from "../errors/failure.ts";
import type { Running } from "./deps.ts";

/** A buffered request that can be ended from outside: its client leaves, or the router shuts down. The first reason stands. */
export class Stoppable implements Running, TriedCall {
  stopped: ClientGone | Failure | undefined;
  freshConnections = false;
  /** Nothing is promised before the whole answer is there. */
  readonly statusCommitted = false;
  readonly #listeners = new Set<(why: ClientGone | Failure) => void>();

  stop(why: ClientGone | Failure): void {
    if (this.stopped !== undefined) return;
    this.stopped = why;
    for (const fn of this.#listeners) fn(why);
    this.#listeners.clear();
  }

  /** Calls `fn` when it is stopped, at once if it has been. Returns what takes it back. */
  onStop(fn: (why: ClientGone | Failure) => void): () => void {
    if (this.stopped !== undefined) fn(this.stopped);
    else this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }
}
