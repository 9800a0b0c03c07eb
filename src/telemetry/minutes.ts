import { FAILED_AT, type FailedAt } from "./failed.ts";

const MINUTE_MS = 60_000;
const KEPT = 60;
/** Requests, then failures by `FAILED_AT`. */
const STRIDE = 1 + FAILED_AT.length;

/**
 * Finished requests and failures of the last hour, by minute: how long something has been going on, which a few hundred requests cannot
 * tell on a busy router. One array, two additions per request.
 */
export class Minutes {
  readonly #cells = new Uint32Array(KEPT * STRIDE);
  /** The minute that each place holds. */
  readonly #minute = new Float64Array(KEPT).fill(-1);

  /** A request has ended. `now`: the router's monotonic milliseconds. */
  finished(now: number, failed: FailedAt | undefined): void {
    const base = this.#base(now);
    this.#cells[base]! += 1;
    if (failed !== undefined) this.#cells[base + 1 + FAILED_AT.indexOf(failed)]! += 1;
  }

  /** A request that had ended well turned out to have failed. */
  failedLate(now: number): void {
    this.#cells[this.#base(now) + 1 + FAILED_AT.indexOf("late")]! += 1;
  }

  /** The last hour, oldest first, the minute under way last: of each minute the requests, then the failures in the order of `FAILED_AT`. */
  last(now: number): number[][] {
    const current = Math.floor(now / MINUTE_MS);
    const out: number[][] = [];
    for (let minute = current - KEPT + 1; minute <= current; minute++) {
      const place = ((minute % KEPT) + KEPT) % KEPT;
      const held = minute >= 0 && this.#minute[place] === minute;
      out.push(
        held ? [...this.#cells.subarray(place * STRIDE, (place + 1) * STRIDE)] : new Array<number>(STRIDE).fill(0),
      );
    }
    return out;
  }

  #base(now: number): number {
    const minute = Math.floor(now / MINUTE_MS);
    const place = minute % KEPT;
    const base = place * STRIDE;
    if (this.#minute[place] !== minute) {
      this.#minute[place] = minute;
      this.#cells.fill(0, base, base + STRIDE);
    }
    return base;
  }
}
