/**
 * Waits that something else may end: the other leg's failure, a deadline, a client that leaves. One small promise per wait instead of a
 * `Promise.race`, whose losers pile up on long-lived promises. The first interruption stands, for this wait and all later ones.
 */
export class Interruptible {
  #by: Error | undefined;
  #reject: ((error: Error) => void) | undefined;

  get by(): Error | undefined {
    return this.#by;
  }

  interrupt(error: Error): void {
    if (this.#by !== undefined) return;
    this.#by = error;
    this.#reject?.(error);
    this.#reject = undefined;
  }

  /** Like awaiting `promise`, but rejects as soon as there is an interruption; `promise`'s own end is then nobody's news. */
  wait<T>(promise: Promise<T>): Promise<T> {
    if (this.#by !== undefined) promise.catch(ignore);
    return this.until((resolve, reject) => void promise.then(resolve, reject));
  }

  /** The same for what calls back: one promise less. After an interruption it is not begun. */
  until<T>(begin: (resolve: (value: T) => void, reject: (error: unknown) => void) => void): Promise<T> {
    if (this.#by !== undefined) return Promise.reject(this.#by);
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      begin(resolve, reject);
    });
  }
}

function ignore(): void {}
