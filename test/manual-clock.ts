import type { Clock } from "../src/runtime/clock.ts";

/** A clock that stands still until it is moved. Starts above zero, since the code under test may take 0 for "never". */
export class ManualClock implements Clock {
  time = 1_000;
  readonly timers = new Set<{ at: number; fn: () => void }>();

  now(): number {
    return this.time;
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.time + ms, fn };
    this.timers.add(timer);
    return () => {
      this.timers.delete(timer);
    };
  }

  /** Moves time forward, timer by timer, and lets what waits on each run before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    await settled();
    for (;;) {
      let next: { at: number; fn: () => void } | undefined;
      for (const timer of this.timers) if (timer.at <= end && (next === undefined || timer.at < next.at)) next = timer;
      if (next === undefined) break;
      this.timers.delete(next);
      this.time = Math.max(this.time, next.at);
      next.fn();
      await settled();
    }
    this.time = end;
  }
}

/** Lets every promise run that is ready, and those that they make ready. No time passes. */
export async function settled(): Promise<void> {
  for (let round = 0; round < 4; round++) await new Promise<void>((resolve) => setImmediate(resolve));
}
