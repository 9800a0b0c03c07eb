const SLOTS = 16_384;

/** Many deadlines at millisecond steps for one timer: a timer each would cost more than the events they are for. */
export class Wheel {
  readonly #slots: (() => void)[][] = Array.from({ length: SLOTS }, () => []);
  #now = Math.floor(performance.now());
  #waiting = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Calls `run` at `at` (milliseconds of `performance.now()`), at most 16 s away; at once if that has passed. */
  at(at: number, run: () => void): void {
    if (this.#timer === undefined) {
      this.#now = Math.floor(performance.now());
      this.#timer = setInterval(this.#turn, 1);
    }
    const slot = Math.max(Math.floor(at), this.#now + 1);
    this.#slots[slot % SLOTS]?.push(run);
    this.#waiting++;
  }

  readonly #turn = (): void => {
    const end = Math.floor(performance.now());
    while (this.#now < end) {
      this.#now++;
      const slot = this.#now % SLOTS;
      const due = this.#slots[slot] ?? [];
      if (due.length === 0) continue;
      this.#slots[slot] = [];
      this.#waiting -= due.length;
      for (const run of due) run();
    }
    if (this.#waiting === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  };
}
