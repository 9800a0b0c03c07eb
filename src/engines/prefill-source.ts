import type { PrefillOutput, PrefillReader, PrefillStream } from "../prefill/output.ts";
import type { EngineAnswer, SplitPlan } from "./dialect.ts";

interface Step {
  done: boolean;
  value?: PrefillOutput;
}

const DONE: Step = { done: true };

/**
 * A dialect's prefill leg as the stream that `src/prefill/` consumes: the early output at once where the hand-off is known ahead,
 * then the judged answer, then the end. A rejected answer (a transport's Failure) is an error output like any other.
 *
 * @param answer the leg's complete answer. Its rejection is handled here from now on, read or not
 * @returns a stream for one reader. Cancelling it only ends the reading: closing the leg is the business of whoever opened it
 */
export function prefillSource(plan: SplitPlan, answer: Promise<EngineAnswer>): PrefillStream {
  return new PrefillSource(plan, answer);
}

/** Stream and reader in one object: a `ReadableStream` a request costs a microsecond or two, and one reader is all there is. */
class PrefillSource implements PrefillStream, PrefillReader {
  readonly #plan: SplitPlan;
  readonly #judged: Promise<Step>;
  #early: boolean;
  #done = false;

  constructor(plan: SplitPlan, answer: Promise<EngineAnswer>) {
    this.#plan = plan;
    this.#early = plan.early !== undefined;
    // Subscribed to here and not at the second read, which may never come after an error of decode's.
    this.#judged = answer.then(
      (complete) => this.#judge(complete),
      (error: unknown) => ({ done: false, value: { error } }),
    );
  }

  getReader(): PrefillReader {
    return this;
  }

  read(): Promise<Step> {
    if (this.#done) return Promise.resolve(DONE);
    if (this.#early) {
      this.#early = false;
      return Promise.resolve({ done: false, value: { data: this.#plan.early } });
    }
    this.#done = true;
    return this.#judged;
  }

  cancel(): Promise<void> {
    this.#done = true;
    return Promise.resolve();
  }

  #judge(answer: EngineAnswer): Step {
    try {
      return { done: false, value: this.#plan.judge(answer) };
    } catch (error) {
      return { done: false, value: { error } };
    }
  }
}
