import type { PrefillError } from "./errors.ts";
import { type ForwardRules, forwardDecode } from "./forward.ts";
import type { PromptTokensDetails } from "./output.ts";
import type { TaskPorts } from "./ports.ts";

/** What the rest of a prefill stream held that a client may need. */
export interface PrefillTail {
  promptTokensDetails?: PromptTokensDetails | undefined;
  inputLogprobs?: unknown;
}

export type PrefillOutcome =
  | { readonly ok: true; readonly tail: PrefillTail }
  | { readonly ok: false; readonly error: PrefillError };

export type SettledObserver = (outcome: PrefillOutcome) => void;

/**
 * A prefill that goes on in the background, seen from outside. Nobody has to look: the drain behind it holds the task, not the
 * other way round, so dropping it aborts nothing, and its failure is a value, never a rejection.
 *
 * It settles at the first failure, or at the good end of the stream; after a failure the drain still reads on to the end.
 */
export class PrefillTask {
  /** The synchronous view, for loops that look at prefill in every round: null while pending. */
  outcome: PrefillOutcome | null = null;

  readonly #ports: TaskPorts;
  // Both made on demand: most requests have one observer, and no promise is needed for it.
  #observers: (SettledObserver | undefined)[] | undefined = undefined;
  #settled: Promise<PrefillOutcome> | undefined = undefined;

  constructor(ports: TaskPorts) {
    this.#ports = ports;
  }

  /**
   * Calls `observer` in the tick in which the task settles, or at once if it has. Returns what takes it back. What an observer
   * throws goes to `background.fault`.
   */
  onSettled(observer: SettledObserver): () => void {
    if (this.outcome !== null) {
      this.#tell(observer, this.outcome);
      return nothingToTakeBack;
    }
    this.#observers ??= [];
    const observers = this.#observers;
    const place = observers.push(observer) - 1;
    return function unsubscribe() {
      observers[place] = undefined;
    };
  }

  /** The outcome as a promise; it never rejects. */
  get settled(): Promise<PrefillOutcome> {
    if (this.#settled === undefined) {
      const task = this;
      this.#settled = new Promise(function wait(resolve) {
        task.onSettled(resolve);
      });
    }
    return this.#settled;
  }

  /** For whoever drives the task (the drain, a test). Only the first call counts; the answer says whether it was the one. */
  settle(outcome: PrefillOutcome): boolean {
    if (this.outcome !== null) return false;
    this.outcome = outcome;
    const observers = this.#observers;
    this.#observers = undefined;
    if (observers !== undefined) {
      // By index, and read afresh each time: an observer may take back a later one.
      for (let place = 0; place < observers.length; place++) {
        const observer = observers[place];
        if (observer !== undefined) this.#tell(observer, outcome);
      }
    }
    return true;
  }

  /** `forwardDecode` for this task, with its own clock and limits. */
  forwardDecode<T>(
    openDecode: () => Promise<ReadableStream<T>>,
    cancel: (reason: unknown) => void,
    rules: ForwardRules<T>,
  ): Promise<ReadableStream<T>> {
    return forwardDecode(this, openDecode, cancel, rules, this.#ports);
  }

  #tell(observer: SettledObserver, outcome: PrefillOutcome): void {
    try {
      observer(outcome);
    } catch (error) {
      this.#ports.background.fault?.(error);
    }
  }
}

function nothingToTakeBack(): void {}
