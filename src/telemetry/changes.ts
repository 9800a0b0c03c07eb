import type { BreakerState } from "./fleet.ts";

export type ChangeOfWorker = "healthy" | "unhealthy" | `breaker ${BreakerState}`;

/** Something became of a worker. `at`: milliseconds since 1970. */
export interface FleetChange {
  at: number;
  worker: string;
  what: ChangeOfWorker;
}

/** A worker, and no other that is called like it. */
type Known = { readonly name: string };

const KEPT = 50;

/**
 * The last changes of workers' health and breakers, and since when each is as it is, for the dashboard. The times hang on the workers
 * themselves: pods come and go by the thousand, and one that takes the name of another has not been sick for it.
 */
export class FleetChanges {
  readonly #wallNow: () => number;
  #last: readonly FleetChange[] = [];
  readonly #health = new WeakMap<Known, number>();
  readonly #breaker = new WeakMap<Known, number>();

  constructor(wallNow: () => number) {
    this.#wallNow = wallNow;
  }

  add(worker: Known, what: ChangeOfWorker): void {
    const at = this.#wallNow();
    // Another array each time: whoever has seen the old one sees at once that there is news.
    this.#last = [{ at, worker: worker.name, what }, ...this.#last.slice(0, KEPT - 1)];
    if (what === "healthy" || what === "unhealthy") this.#health.set(worker, at);
    // A probe that fails takes an open breaker back to open: it has been sick since the first time.
    else if (what !== "breaker half-open") {
      if (what === "breaker closed") this.#breaker.delete(worker);
      else if (!this.#breaker.has(worker)) this.#breaker.set(worker, at);
    }
  }

  /** Newest first. The same array as long as nothing has changed. */
  last(): readonly FleetChange[] {
    return this.#last;
  }

  /** Since when health is as it is; undefined: since the worker came. */
  healthSince(worker: Known): number | undefined {
    return this.#health.get(worker);
  }

  /** Since when the breaker has not been closed for good; undefined: it is closed. */
  breakerSince(worker: Known): number | undefined {
    return this.#breaker.get(worker);
  }
}
