import type { Worker } from "./worker.ts";

/**
 * A request's place on a worker, from the moment of choice to the end of its body, drain or tail. Whoever holds it releases it,
 * exactly when its leg closes; the outcome (`worker.succeeded`, `failed`, `busy`, or nothing = neutral) is reported before that.
 */
export interface Lease {
  readonly worker: Worker;
  /** Prompt tokens that were counted as work: what is expected to be cached is not in it. */
  readonly tokens: number;
  /**
   * The worker answers this request. That is a sign of life, and where the request was a half-open worker's probe the next one may be sent:
   * an answer may take minutes. Whether the worker is well shows at its end only.
   */
  speaks(now: number): void;
  /** Gives the place back. Any number of calls counts once, so every exit path may call it. */
  release(): void;
}

/** Choices made in this process: orders workers by when they were last chosen. */
let choices = 0;

/**
 * Counts a request on a worker at once. `tokens` is the prompt's estimated work. When the worker's breaker is half-open the lease
 * is its probe and holds the one probe place.
 */
export function acquire(worker: Worker, tokens: number, now: number): Lease {
  choices += 1;
  worker.lastChoice = choices;
  worker.turn();
  return new WorkerLease(worker, Math.max(0, tokens), worker.breaker.enter(now));
}

/**
 * It keeps the Worker object, not its name: a worker that was removed and added again is another object, and the counter that was
 * raised is the one that falls.
 */
class WorkerLease implements Lease {
  readonly worker: Worker;
  readonly tokens: number;
  readonly #probe: number;
  #held = true;

  constructor(worker: Worker, tokens: number, probe: number) {
    this.worker = worker;
    this.tokens = tokens;
    this.#probe = probe;
    worker.load.requests += 1;
    worker.load.tokens += tokens;
  }

  speaks(now: number): void {
    this.worker.answered(now);
    this.worker.breaker.leave(this.#probe);
  }

  release(): void {
    if (!this.#held) return;
    this.#held = false;
    const { load } = this.worker;
    load.requests -= 1;
    // Estimates may be fractions, whose sums need not come back to 0 exactly; an idle worker has none by definition.
    load.tokens = load.requests === 0 ? 0 : Math.max(0, load.tokens - this.tokens);
    this.worker.breaker.leave(this.#probe);
  }
}
