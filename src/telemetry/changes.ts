import type { BreakerState } from "./fleet.ts";

export type ChangeOfWorker = "healthy" | "unhealthy" | `breaker ${BreakerState}`;

/** Something became of a worker. `at`: milliseconds since 1970. */
export interface FleetChange {
  at: number;
  worker: string;
  what: ChangeOfWorker;
}

const KEPT = 50;

/** The last changes of workers' health and breakers, and since when each is as it is, for the dashboard. */
export class FleetChanges {
  readonly #wallNow: () => number;
  #last: readonly FleetChange[] = [];
  readonly #health = new Map<string, number>();
  readonly #breaker = new Map<string, number>();

  constructor(wallNow: () => number) {
    this.#wallNow = wallNow;
  }

  add(worker: string, what: ChangeOfWorker): void {
    const at = this.#wallNow();
    // Another array each time: whoever has seen the old one sees at once that there is news.
    this.#last = [{ at, worker, what }, ...this.#last.slice(0, KEPT - 1)];
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
  healthSince(worker: string): number | undefined {
    return this.#health.get(worker);
  }

  /** Since when the breaker has not been closed for good; undefined: it is closed. */
  breakerSince(worker: string): number | undefined {
    return this.#breaker.get(worker);
  }
}
