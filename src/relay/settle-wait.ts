import type { Clock } from "../runtime/clock.ts";
import type { RelayObserver } from "./ports.ts";

/** A finished answer that waits for prefill's tail: how long it may, and how long it did. */
export class SettleWait {
  readonly #clock: Clock;
  readonly #observer: Pick<RelayObserver, "settleWaited" | "prefillFails">;
  #since = 0;
  #stop: (() => void) | undefined;

  /** The observer is told once per wait that ended by itself: after how many milliseconds, and whether the tail had settled. */
  constructor(clock: Clock, observer: Pick<RelayObserver, "settleWaited" | "prefillFails">) {
    this.#clock = clock;
    this.#observer = observer;
  }

  /** Waits from now on, `ms` at most (undefined: without end), then calls `tooLong`. For a prefill that is about to fail the wait goes on. */
  begin(ms: number | undefined, tooLong: () => void): void {
    this.#since = this.#clock.now();
    if (ms === undefined) return;
    this.#stop = this.#clock.after(ms, () => {
      if (this.#observer.prefillFails()) return;
      this.#observer.settleWaited(this.#clock.now() - this.#since, false);
      tooLong();
    });
  }

  /** The tail has settled. */
  settled(): void {
    this.stop();
    this.#observer.settleWaited(this.#clock.now() - this.#since, true);
  }

  /** Nobody waits any more. */
  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
  }
}
