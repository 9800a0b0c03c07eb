import type { Clock } from "../runtime/clock.ts";

/**
 * A deadline that moves: setting it later costs two field writes, no timer. The timer behind it runs to the earliest moment it was
 * ever set to and looks again; so a stream of a thousand events costs a handful of timers, not a thousand.
 */
export class Watch {
  readonly #clock: Clock;
  readonly #expire: () => void;
  #at = Number.POSITIVE_INFINITY;
  #timerAt = Number.POSITIVE_INFINITY;
  #stopTimer: (() => void) | undefined;

  constructor(clock: Clock, expire: () => void) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** Expires `ms` from `now`; a non-positive or infinite `ms` means no deadline. */
  set(ms: number, now = this.#clock.now()): void {
    if (ms <= 0 || ms === Number.POSITIVE_INFINITY) {
      this.#at = Number.POSITIVE_INFINITY;
      return;
    }
    this.#at = now + ms;
    if (this.#at < this.#timerAt) this.#arm(ms);
  }

  /** No deadline for now; cheap, since the next one is likely to come soon. */
  pause(): void {
    this.#at = Number.POSITIVE_INFINITY;
  }

  /** Takes the timer back as well. */
  stop(): void {
    this.#at = Number.POSITIVE_INFINITY;
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #arm(ms: number): void {
    this.#stopTimer?.();
    this.#timerAt = this.#clock.now() + ms;
    this.#stopTimer = this.#clock.after(ms, () => this.#look());
  }

  #look(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#stopTimer = undefined;
    if (this.#at === Number.POSITIVE_INFINITY) return;
    const left = this.#at - this.#clock.now();
    if (left > 0) {
      this.#arm(left);
      return;
    }
    this.#at = Number.POSITIVE_INFINITY;
    this.#expire();
  }
}
