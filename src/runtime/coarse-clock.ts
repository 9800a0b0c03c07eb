import type { Clock } from "./clock.ts";

/** How coarse the shared clock is. Deadlines are in hundreds of milliseconds and up; 10 ms late is nobody's harm. */
const TICK_MS = 10;
/** A tick that comes so much later than the one before was held up: the process was stopped, starved, or busy with one long task. */
const STANDSTILL_MS = 250;

interface Entry {
  at: number;
  fn: () => void;
}

/**
 * One timer for the deadlines of all requests. An entry is kept in the bucket of its tick, so adding and taking back cost a few field
 * writes and no runtime timer; the one runtime timer runs only while there are entries.
 */
export class CoarseClock implements Clock {
  readonly #buckets = new Map<number, Set<Entry>>();
  #size = 0;
  /** The first tick that has not been run. */
  #nextTick = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #lastRunAt = 0;
  #spared = false;

  now(): number {
    return performance.now();
  }

  after(ms: number, fn: () => void): () => void {
    const at = this.now() + ms;
    // Never a tick that has been run already: with `ms` 0, or from within a deadline, that could be the one under way.
    const tick = Math.max(Math.ceil(at / TICK_MS), this.#nextTick);
    let bucket = this.#buckets.get(tick);
    if (bucket === undefined) {
      bucket = new Set();
      this.#buckets.set(tick, bucket);
    }
    const entry: Entry = { at, fn };
    bucket.add(entry);
    this.#size++;
    if (this.#timer === undefined) this.#start();
    const home = bucket;
    return () => {
      if (home.delete(entry)) {
        this.#size--;
        // A bucket that is being run is out of the map already; another one may stand in its place.
        if (home.size === 0 && this.#buckets.get(tick) === home) this.#buckets.delete(tick);
      }
    };
  }

  #start(): void {
    this.#lastRunAt = this.now();
    this.#nextTick = Math.floor(this.#lastRunAt / TICK_MS);
    this.#timer = setInterval(() => this.#run(), TICK_MS);
  }

  #run(): void {
    const at = this.now();
    const stoodStill = at - this.#lastRunAt > STANDSTILL_MS;
    this.#lastRunAt = at;
    // Our own standstill is not the engines' silence: what they sent meanwhile waits in the sockets and is read before the next tick. Once
    // only, or a process that is always late would have no deadlines at all.
    this.#spared = stoodStill && !this.#spared;
    if (this.#spared) return;
    const now = Math.floor(at / TICK_MS);
    while (this.#nextTick <= now) {
      const tick = this.#nextTick++;
      const bucket = this.#buckets.get(tick);
      if (bucket === undefined) continue;
      this.#buckets.delete(tick);
      for (const entry of bucket) {
        // One by one: what runs now may take back one that stands after it in the same tick.
        bucket.delete(entry);
        this.#size--;
        entry.fn();
      }
    }
    if (this.#size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }
}
