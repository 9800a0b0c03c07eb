/**
 * What the heart needs from its surroundings, as structural ports: it imports nothing, so it can be embedded anywhere.
 */

/** Keeps work alive after the handler has returned (`waitUntil` where there is one). */
export interface Background {
  /** Takes a promise that never rejects. A runtime without `waitUntil` may simply drop it. */
  run(task: Promise<unknown>): void;
  /** Is told what an observer or a guard threw. Absent: it is dropped, since it must harm neither the drain nor other observers. */
  fault?(error: unknown): void;
}

/** Monotonic milliseconds. `after` calls `fn` once, not before `ms` have passed, and returns what takes it back. */
export interface Clock {
  now(): number;
  after(ms: number, fn: () => void): () => void;
}

/** Something held for as long as a prefill stream runs (a worker's load, a connection). Released exactly once. */
export interface Guard {
  release(): void;
}

/** `settleMs`: how long decode's finished answer waits for an unsettled prefill tail; 0 = it does not wait. */
export interface Limits {
  settleMs: number;
}

/** What a `PrefillTask` keeps at hand. */
export interface TaskPorts {
  background: Background;
  clock: Clock;
  limits: Limits;
}
