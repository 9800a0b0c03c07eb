import type { RetriesConfig } from "../config/schema.ts";

const WINDOW_MS = 10_000;
/** Counts leave the window a quarter of a second at a time. It is never longer than 10 s: that many retries are "always" allowed. */
const SLICES = 40;
const SLICE_MS = WINDOW_MS / SLICES;
/** So many retries per window are always allowed: a share of little traffic would round to none. */
const FREE_RETRIES = 10;

/**
 * Keeps retries a share of the traffic (contract section 2, `retries.budget`): when everything fails, each request tried three times
 * would triple the load on what is already down. Counters in slices of time, no timers, 80 numbers in all.
 */
export class RetryBudget {
  #budget: number;
  readonly #requests = new Uint32Array(SLICES);
  readonly #retries = new Uint32Array(SLICES);
  /** Number of the slice that is being filled. */
  #slice = 0;

  /** `budget`: retries per request over the last 10 s; 0 = no limit. */
  constructor(budget: number) {
    this.#budget = budget;
  }

  configure(budget: number): void {
    this.#budget = budget;
  }

  /** A client's request has come in (its retries are not requests). */
  request(now: number): void {
    const index = this.#turn(now);
    this.#requests[index] = this.#requests[index]! + 1;
  }

  /** Whether one more retry may be made now; if so it is counted. */
  take(now: number): boolean {
    const index = this.#turn(now);
    if (this.#budget > 0) {
      const retries = total(this.#retries);
      if (retries >= FREE_RETRIES && retries + 1 > this.#budget * total(this.#requests)) return false;
    }
    this.#retries[index] = this.#retries[index]! + 1;
    return true;
  }

  /** Empties the slices that have passed since the last call; returns the place of the current one. */
  #turn(now: number): number {
    const slice = Math.floor(now / SLICE_MS);
    const passed = Math.min(slice - this.#slice, SLICES);
    for (let step = 0; step < passed; step++) {
      const index = (slice - step) % SLICES;
      this.#requests[index] = 0;
      this.#retries[index] = 0;
    }
    if (slice > this.#slice) this.#slice = slice;
    return this.#slice % SLICES;
  }
}

/**
 * Milliseconds to wait before retry number `attempt` (1 = the first): the base doubles each time up to `maxBackoffMs`, and half of
 * it is left to chance, so that requests that failed together do not come back together.
 */
export function backoffMs(
  attempt: number,
  config: Pick<RetriesConfig, "backoffMs" | "maxBackoffMs">,
  random: () => number,
): number {
  const full = Math.min(config.backoffMs * 2 ** (attempt - 1), config.maxBackoffMs);
  return full / 2 + (full / 2) * random();
}

function total(counts: Uint32Array): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}
