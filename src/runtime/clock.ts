/**
 * Time as a port: the deadlines of all requests hang on one coarse clock, and tests inject their own.
 * Milliseconds throughout; `now()` is monotonic.
 */
export interface Clock {
  now(): number;
  /** Calls `fn` once, not before `ms` have passed. Returns a function that takes it back. */
  after(ms: number, fn: () => void): () => void;
}
