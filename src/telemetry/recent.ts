import type { RequestRecord } from "./record.ts";

/** How many finished requests the dashboard can look back on. */
const KEPT = 256;

/**
 * The running requests and the last few hundred finished ones, for the dashboard. Holds references only: what it shows is made when
 * somebody looks.
 */
export class Recent {
  readonly #running = new Set<RequestRecord>();
  readonly #finished: (RequestRecord | undefined)[];
  #next = 0;

  constructor(kept = KEPT) {
    this.#finished = new Array<RequestRecord | undefined>(kept).fill(undefined);
  }

  get runningCount(): number {
    return this.#running.size;
  }

  add(record: RequestRecord): void {
    this.#running.add(record);
  }

  finish(record: RequestRecord): void {
    this.#running.delete(record);
    this.#finished[this.#next] = record;
    this.#next = (this.#next + 1) % this.#finished.length;
  }

  /** Oldest first. */
  running(): Iterable<RequestRecord> {
    return this.#running.values();
  }

  /** Newest first. */
  finished(): RequestRecord[] {
    const out: RequestRecord[] = [];
    for (let i = 1; i <= this.#finished.length; i++) {
      const record = this.#finished[(this.#next - i + this.#finished.length) % this.#finished.length];
      if (record !== undefined) out.push(record);
    }
    return out;
  }
}
