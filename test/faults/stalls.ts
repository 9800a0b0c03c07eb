/** Knows for how long the process itself stood still: a busy machine, a long garbage collection. */
export class Stalls {
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #stalls: { at: number; ms: number }[] = [];
  #last = performance.now();

  constructor(everyMs = 10) {
    this.#timer = setInterval(() => {
      const now = performance.now();
      const late = now - this.#last - everyMs;
      if (late > 1) this.#stalls.push({ at: now, ms: late });
      this.#last = now;
    }, everyMs);
  }

  /** The milliseconds by which timers have been late since `from`, all together. */
  lostSince(from: number): number {
    let lost = Math.max(0, performance.now() - this.#last);
    for (let at = this.#stalls.length - 1; at >= 0; at--) {
      const stall = this.#stalls[at]!;
      if (stall.at < from) break;
      lost += stall.ms;
    }
    return lost;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
