import { failedAt } from "./failed.ts";
import { Minutes } from "./minutes.ts";
import type { RequestRecord } from "./record.ts";

/** How many finished requests the dashboard can look back on. */
const KEPT = 256;
/** Failed ones are kept apart: on a busy router a few hundred good ones would wash them away within a second. */
const KEPT_FAILED = 64;

/**
 * The running requests and the last few hundred finished ones, for the dashboard. Holds references only: what it shows is made when
 * somebody looks.
 */
export class Recent {
  readonly minutes: Minutes = new Minutes();
  readonly #running = new Set<RequestRecord>();
  readonly #finished: Ring;
  readonly #failed = new Ring(KEPT_FAILED);

  constructor(kept = KEPT) {
    this.#finished = new Ring(kept);
  }

  get runningCount(): number {
    return this.#running.size;
  }

  add(record: RequestRecord): void {
    this.#running.add(record);
  }

  finish(record: RequestRecord): void {
    this.#running.delete(record);
    this.#finished.add(record);
    const failed = failedAt(record);
    this.minutes.finished(record.finishedAt, failed);
    if (failed !== undefined) this.#failed.add(record);
  }

  /** The tail of a finished request has ended: when it failed, the request was not as good as its answer looked. */
  tailEnded(record: RequestRecord): void {
    if (record.lateFailureWhen !== "after_end") return;
    if (this.#failed.has(record)) return;
    this.#failed.add(record);
    this.minutes.failedLate(record.tailEndedAt);
  }

  /** Oldest first. */
  running(): Iterable<RequestRecord> {
    return this.#running.values();
  }

  /** Newest first. */
  finished(): RequestRecord[] {
    return this.#finished.newestFirst();
  }

  /** Newest first; what failed long ago is still here when the finished ones have moved on. */
  failed(): RequestRecord[] {
    return this.#failed.newestFirst();
  }
}

class Ring {
  readonly #places: (RequestRecord | undefined)[];
  #next = 0;

  constructor(size: number) {
    this.#places = new Array<RequestRecord | undefined>(size).fill(undefined);
  }

  add(record: RequestRecord): void {
    this.#places[this.#next] = record;
    this.#next = (this.#next + 1) % this.#places.length;
  }

  has(record: RequestRecord): boolean {
    return this.#places.includes(record);
  }

  newestFirst(): RequestRecord[] {
    const out: RequestRecord[] = [];
    const { length } = this.#places;
    for (let i = 1; i <= length; i++) {
      const record = this.#places[(this.#next - i + length) % length];
      if (record !== undefined) out.push(record);
    }
    return out;
  }
}
