/** A region that comes back has cold caches and cold connections: it gets its share over half a minute. */
const RAMP_MS = 30_000;
const FIRST_SHARE = 0.05;
/**
 * Failures in a row, over all workers of a pool, after which the pool counts as gone. Where half of the workers are left such a row comes once
 * in five hundred requests, and by then health checks and breakers know who is who.
 */
const FAILURES = 8;
/** While it comes back it has to prove itself. */
const FAILURES_BACK = 3;
const DOWN_MS = 10_000;
const LONGEST_DOWN_MS = 60_000;

/**
 * Whether a pool as a whole is to be trusted, and with how much of its share: the breakers of a hundred workers take hundreds of
 * failures to open, a region that has died shows after eight. Plain state; it notices by being asked.
 */
export class Recovery {
  #failures = 0;
  #downUntil = 0;
  #downMs = DOWN_MS;
  #downSeen = false;
  #upSince = Number.NEGATIVE_INFINITY;

  /** Failures in a row, without any success in the pool. */
  get failures(): number {
    return this.#failures;
  }

  /** A request was answered. */
  succeeded(now: number): void {
    this.#failures = 0;
    if (now - this.#upSince >= RAMP_MS) this.#downMs = DOWN_MS;
  }

  /** A request could not be answered because a worker of the pool was not there. */
  failed(now: number): void {
    if (now < this.#downUntil) return;
    this.#failures += 1;
    const recovering = this.#downSeen || now - this.#upSince < RAMP_MS;
    if (this.#failures < (recovering ? FAILURES_BACK : FAILURES)) return;
    this.#failures = 0;
    this.#downSeen = true;
    this.#downUntil = now + this.#downMs;
    this.#downMs = Math.min(LONGEST_DOWN_MS, this.#downMs * 2);
  }

  /** 0…1. `serving`: there are workers that can be used. */
  share(serving: boolean, now: number): number {
    if (!serving || now < this.#downUntil) {
      this.#downSeen = true;
      return 0;
    }
    if (this.#downSeen) {
      this.#downSeen = false;
      this.#upSince = now;
    }
    return Math.min(1, FIRST_SHARE + ((now - this.#upSince) / RAMP_MS) * (1 - FIRST_SHARE));
  }
}
