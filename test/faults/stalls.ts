/** Knows when the process itself stood still: a busy machine, a long garbage collection. */
export class Stalls {
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #stalls: { at: number; ms: number }[] = [];
  #last = performance.now();

  constructor(everyMs = 10) {
    this.#timer = setInterval(() => {
      const now = performance.now();
      const late = now - this.#last - everyMs;
      if (late > everyMs) this.#stalls.push({ at: now, ms: late });
      this.#last = now;
    }, everyMs);
  }

  /** The longest standstill that ended after `from`, in milliseconds. */
  longestSince(from: number): number {
    let longest = performance.now() - this.#last;
    for (const { at, ms } of this.#stalls) if (at > from && ms > longest) longest = ms;
    return longest;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
