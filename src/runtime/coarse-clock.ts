import type { Clock } from "./clock.ts";

/** How coarse the shared clock is. Deadlines are in hundreds of milliseconds and up; 10 ms late is nobody's harm. */
const TICK_MS = 10;
/** A tick that comes so much later than the one before was held up: the process was stopped, starved, or busy with one long task. */
const STANDSTILL_MS = 250;

/** A deadline as a link of its tick's ring, so that taking it back is four field writes and leaves nothing behind. */
interface Entry {
  fn: (() => void) | undefined;
  previous: Entry;
  next: Entry;
}

/** The fixed point of a tick's ring; `entries` says when the tick can be forgotten. */
interface Tick extends Entry {
  at: number;
  entries: number;
}

/**
 * One timer for the deadlines of all requests: adding one and taking it back costs 0.1 µs and no runtime timer (a `Set` per tick took
 * three times that). The one runtime timer runs only while there are entries.
 */
export class CoarseClock implements Clock {
  readonly #ticks = new Map<number, Tick>();
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
    const wanted = Math.ceil((this.now() + ms) / TICK_MS);
    // Never a tick that has been run already: with `ms` 0, or from within a deadline, that could be the one under way.
    const tick = this.#tickAt(Math.max(wanted, this.#nextTick));
    const last = tick.previous;
    const entry: Entry = { fn, previous: last, next: tick };
    last.next = entry;
    tick.previous = entry;
    tick.entries++;
    this.#size++;
    if (this.#timer === undefined) this.#start();
    return () => {
      if (entry.fn !== undefined) this.#remove(tick, entry);
    };
  }

  #tickAt(at: number): Tick {
    const known = this.#ticks.get(at);
    if (known !== undefined) return known;
    const tick = { fn: undefined, at, entries: 0 } as unknown as Tick;
    tick.previous = tick;
    tick.next = tick;
    this.#ticks.set(at, tick);
    return tick;
  }

  #remove(tick: Tick, entry: Entry): void {
    entry.fn = undefined;
    entry.previous.next = entry.next;
    entry.next.previous = entry.previous;
    this.#size--;
    // A tick that is being run is out of the map already; another one may stand in its place.
    if (--tick.entries === 0 && this.#ticks.get(tick.at) === tick) this.#ticks.delete(tick.at);
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
      const tick = this.#ticks.get(this.#nextTick++);
      if (tick === undefined) continue;
      this.#ticks.delete(tick.at);
      // One by one from the front: what runs now may take back one that stands after it in the same tick.
      for (let entry = tick.next; entry !== tick; entry = tick.next) {
        const { fn } = entry;
        this.#remove(tick, entry);
        fn?.();
      }
    }
    if (this.#size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }
}
