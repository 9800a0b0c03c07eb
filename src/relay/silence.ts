import { Watch } from "../legs/watch.ts";
import type { Clock } from "../runtime/clock.ts";

/** How often at most it is told that events come. */
const TELL_MS = 1_000;

/**
 * How long decode has been silent, counted only while the router waits for it: a client that does not read is not decode's silence.
 * Comments and pieces of an event end a wait, but not the silence.
 */
export class Silence {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #watch: Watch;
  readonly #speaks: (now: number) => void;
  #spoke = false;
  #tellAt = 0;
  #spentMs = 0;
  #since = 0;

  /** `limitMs` 0 = no limit. `speaks` is told of events, now and then. */
  constructor(clock: Clock, limitMs: number, tooLong: () => void, speaks: (now: number) => void) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#watch = new Watch(clock, tooLong);
    this.#speaks = speaks;
  }

  /** The router waits for decode from now on. */
  begin(): void {
    const now = this.#clock.now();
    if (this.#spoke && now >= this.#tellAt) {
      this.#spoke = false;
      this.#tellAt = now + TELL_MS;
      this.#speaks(now);
    }
    if (this.#limitMs <= 0) return;
    this.#since = now;
    this.#watch.set(Math.max(1, this.#limitMs - this.#spentMs), now);
  }

  /** Something came. It ends the wait; whether also the silence is said by `broken` or `goesOn`. */
  pause(): void {
    this.#watch.pause();
  }

  /** An event has come. */
  broken(): void {
    this.#spoke = true;
    this.#spentMs = 0;
  }

  /** What came was no event. */
  goesOn(): void {
    if (this.#limitMs <= 0) return;
    const now = this.#clock.now();
    this.#spentMs += now - this.#since;
    this.#since = now;
  }

  stop(): void {
    this.#watch.stop();
  }
}
