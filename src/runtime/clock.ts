/**
 * Time as a port: the deadlines of all requests hang on one coarse clock, and tests inject their own.
 * Milliseconds throughout; `now()` is monotonic.
 */
export interface Clock {
  now(): number;
  /** Calls `fn` once, not before `ms` have passed. Returns a function that takes it back. */
  after(ms: number, fn: () => void): () => void;
}

/** Resolves with what `pending` gives if that comes within `ms`, else with undefined. Rejects as it does. */
export function within<T>(pending: Promise<T>, ms: number, clock: Clock): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const stop = clock.after(ms, () => resolve(undefined));
    pending.then(
      (value) => {
        stop();
        resolve(value);
      },
      (error: unknown) => {
        stop();
        reject(error);
      },
    );
  });
}
