import { MemoryStore } from "../../src/shared/memory-store.ts";
import type { Exchanged, OutRecord, SharedStore } from "../../src/shared/store.ts";

export type LinkState = "up" | "refused" | "silent" | "deaf" | "slow";

/** One router's way to a store, which can be cut in the ways in which networks cut. */
export class Link implements SharedStore {
  state: LinkState = "up";
  store: SharedStore;
  /** Clock times of exchanges that wrote something, by topic. */
  readonly writes: { topic: string; at: number; bytes: number }[] = [];
  exchanges = 0;
  readonly #after: (ms: number, fn: () => void) => unknown;
  readonly #now: () => number;

  constructor(store: SharedStore, clock: { now(): number; after(ms: number, fn: () => void): unknown }) {
    this.store = store;
    this.#now = () => clock.now();
    this.#after = (ms, fn) => clock.after(ms, fn);
  }

  async exchange(topic: string, write: readonly OutRecord[], since: number): Promise<Exchanged> {
    this.exchanges += 1;
    if (write.length > 0) {
      this.writes.push({ topic, at: this.#now(), bytes: write.reduce((sum, { text }) => sum + text.length, 0) });
    }
    switch (this.state) {
      case "up":
        return this.store.exchange(topic, write, since);
      case "refused":
        throw new Error("Connection refused");
      case "silent":
        return new Promise(() => {});
      case "deaf":
        // What is written arrives, and the answer does not.
        await this.store.exchange(topic, write, since);
        return new Promise(() => {});
      case "slow":
        await new Promise<void>((resolve) => this.#after(1_500, resolve));
        return this.store.exchange(topic, write, since);
    }
  }
}

export function memoryOn(clock: { now(): number }): MemoryStore {
  return new MemoryStore(() => clock.now());
}
