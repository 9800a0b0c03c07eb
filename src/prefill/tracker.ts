import type { Clock, Guard } from "./ports.ts";

export type Phase = "prefill" | "decode";

/** The right to be in a phase. `release` may be called more than once; only the first call counts. */
export class PhasePermit implements Guard {
  readonly phase: Phase;
  #leave: ((permit: PhasePermit) => void) | undefined;

  constructor(phase: Phase, leave: (permit: PhasePermit) => void) {
    this.phase = phase;
    this.#leave = leave;
  }

  release(): void {
    const leave = this.#leave;
    this.#leave = undefined;
    leave?.(this);
  }
}

/**
 * When the steps of one request happened, in the clock's milliseconds; `undefined` = not yet. The steps are first-write-wins, because
 * retried reads and merged streams report them again; the finish is last-write-wins, because only the last end is the end.
 *
 * It also holds the one permit that keeps the phases apart: decode does not enter while prefill is still being set up.
 */
export class RequestTracker {
  prefillStartedAt: number | undefined = undefined;
  firstTokenAt: number | undefined = undefined;
  prefillCompletedAt: number | undefined = undefined;
  decodeFirstTokenAt: number | undefined = undefined;
  finishedAt: number | undefined = undefined;

  readonly #clock: Pick<Clock, "now">;
  #holder: PhasePermit | undefined = undefined;
  #waiting: { phase: Phase; enter: (permit: PhasePermit) => void }[] | undefined = undefined;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Each `record…` answers whether it was the first of its kind. */
  recordPrefillStart(): boolean {
    if (this.prefillStartedAt !== undefined) return false;
    this.prefillStartedAt = this.#clock.now();
    return true;
  }

  recordFirstToken(): boolean {
    if (this.firstTokenAt !== undefined) return false;
    this.firstTokenAt = this.#clock.now();
    return true;
  }

  recordPrefillComplete(): boolean {
    if (this.prefillCompletedAt !== undefined) return false;
    this.prefillCompletedAt = this.#clock.now();
    return true;
  }

  recordDecodeFirstToken(): boolean {
    if (this.decodeFirstTokenAt !== undefined) return false;
    this.decodeFirstTokenAt = this.#clock.now();
    return true;
  }

  recordFinish(): void {
    this.finishedAt = this.#clock.now();
  }

  /** The phase whose permit is out, if any. */
  get phase(): Phase | undefined {
    return this.#holder?.phase;
  }

  /** The permit, if it is free in this tick. */
  tryEnterPhase(phase: Phase): PhasePermit | undefined {
    return this.#holder === undefined ? this.#grant(phase) : undefined;
  }

  /** The permit, in the order of asking. Waits until those before have released theirs. */
  enterPhase(phase: Phase): Promise<PhasePermit> {
    if (this.#holder === undefined) return Promise.resolve(this.#grant(phase));
    const tracker = this;
    return new Promise(function wait(enter) {
      tracker.#waiting ??= [];
      tracker.#waiting.push({ phase, enter });
    });
  }

  #grant(phase: Phase): PhasePermit {
    this.#holder = new PhasePermit(phase, this.#leave);
    return this.#holder;
  }

  readonly #leave = (): void => {
    const next = this.#waiting?.shift();
    this.#holder = undefined;
    if (next !== undefined) next.enter(this.#grant(next.phase));
  };
}
