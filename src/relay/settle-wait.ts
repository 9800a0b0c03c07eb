import type { Clock } from "../runtime/clock.ts";

/** A finished answer that waits for prefill's tail: how long it may, and how long it did. */
export class SettleWait {
  readonly #clock: Clock;
  readonly #waited: (ms: number, settled: boolean) => void;
  #since = 0;
  #stop: (() => void) | undefined;

  /** `waited` is told once per wait that ended by itself: after how many milliseconds, and whether the tail had settled. */
  constructor(clock: Clock, waited: (ms: number, settled: boolean) => void) {
    this.#clock = clock;
    this.#waited = waited;
  }

  /** Waits from now on, `ms` at most (undefined: without end), then calls `tooLong`. */
  begin(ms: number | undefined, tooLong: () => void): void {
    this.#since = this.#clock.now();
    if (ms === undefined) return;
    this.#stop = this.#clock.after(ms, () => {
      this.#waited(this.#clock.now() - this.#since, false);
      tooLong();
    });
  }

  /** The tail has settled. */
  settled(): void {
    this.stop();
    this.#waited(this.#clock.now() - this.#since, true);
  }

  /** Nobody waits any more. */
  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
  }
}
