import type { Clock, Limits } from "./ports.ts";
import type { PrefillOutcome, PrefillTask } from "./task.ts";

/** How decode's items are to be read; the forwarder knows nothing else about them. */
export interface ForwardRules<T> {
  /** The item with which decode says that all went well. */
  isTerminal(item: T): boolean;
  /** The item with which decode says that it failed. */
  failure(item: T): boolean;
  /** The item that tells the client of prefill's failure. */
  errorItem(error: Error): T;
}

export interface ForwardPorts {
  clock: Clock;
  limits: Limits;
}

/**
 * Opens decode and forwards its stream, while prefill may still fail. Prefill is looked at before decode in every round.
 *
 * - Prefill fails before decode has opened: rejects with its `PrefillError`. After: the stream gives one `errorItem` and ends.
 * - Ordinary items are never delayed. Decode's failure (a failed item, a rejection) goes out at once; the stream ends with it.
 * - Decode's success (its terminal item, or its end) waits until prefill settles, `settleMs` at most. Once it is out, nothing can
 *   fail any more: what the rest of decode's stream holds is passed on, a failure in it just ends the stream.
 * - Prefill known to be good when decode has opened: decode's own stream comes back, unwrapped.
 *
 * `cancel` is called once, with the error, when prefill's failure makes decode useless, opened or not (an opened stream is cancelled
 * here as well, also one that opens too late). Cancelling the forwarded stream cancels decode's stream and nothing else: not prefill.
 */
export function forwardDecode<T>(
  task: PrefillTask,
  openDecode: () => Promise<ReadableStream<T>>,
  cancel: (reason: unknown) => void,
  rules: ForwardRules<T>,
  ports: ForwardPorts,
): Promise<ReadableStream<T>> {
  return new Promise(function open(resolve, reject) {
    const known = task.outcome;
    if (known?.ok === true) {
      resolve(openDecode());
      return;
    }
    function onPrefill(outcome: PrefillOutcome): void {
      if (outcome.ok) return;
      reject(outcome.error);
      cancel(outcome.error);
    }
    const unsubscribe = task.onSettled(onPrefill);
    if (known !== null) return;

    let opening: Promise<ReadableStream<T>>;
    try {
      opening = openDecode();
    } catch (error) {
      unsubscribe();
      reject(error);
      return;
    }
    opening
      .then(
        function opened(stream) {
          unsubscribe();
          const outcome = task.outcome;
          if (outcome === null) {
            resolve(new ReadableStream(new Forwarder(stream, task, cancel, rules, ports), { highWaterMark: 0 }));
          } else if (outcome.ok) {
            resolve(stream);
          } else {
            stream.cancel(outcome.error).catch(ignore);
          }
        },
        function notOpened(error) {
          unsubscribe();
          reject(error);
        },
      )
      // A stream that cannot be read (locked by someone else) is a decode that did not open.
      .catch(reject);
  });
}

/** Decode's end, held back like a terminal item. */
const END = Symbol("end of decode");

/**
 * - `watching`: prefill is pending, every item is looked at
 * - `holding`: decode's success waits for prefill
 * - `passing`: prefill is good, items are not looked at any more
 * - `released`: the success is out, nothing can fail any more
 * - `over`: closed, errored or cancelled; whatever still arrives is dropped
 */
type State = "watching" | "holding" | "passing" | "released" | "over";

type ReadStep<T> = { done: true; value?: T | undefined } | { done: false; value: T };

/** One stream's state machine. Per item it costs one read and its two callbacks, made once: no race, no timer. */
class Forwarder<T> implements UnderlyingDefaultSource<T> {
  readonly #reader: ReadableStreamDefaultReader<T>;
  readonly #task: PrefillTask;
  readonly #cancelDecode: (reason: unknown) => void;
  readonly #rules: ForwardRules<T>;
  readonly #ports: ForwardPorts;
  #controller!: ReadableStreamDefaultController<T>;
  #state: State = "watching";
  #held: T | typeof END = END;
  #stopClock: (() => void) | undefined = undefined;
  #unsubscribe: () => void = ignore;

  constructor(
    stream: ReadableStream<T>,
    task: PrefillTask,
    cancelDecode: (reason: unknown) => void,
    rules: ForwardRules<T>,
    ports: ForwardPorts,
  ) {
    this.#reader = stream.getReader();
    this.#task = task;
    this.#cancelDecode = cancelDecode;
    this.#rules = rules;
    this.#ports = ports;
  }

  start(controller: ReadableStreamDefaultController<T>): void {
    this.#controller = controller;
    this.#unsubscribe = this.#task.onSettled(this.#onPrefill);
  }

  pull(): Promise<void> | undefined {
    // While holding, the reader's wish stays open: the release enqueues into it, so no promise has to wait for that.
    if (this.#state === "holding" || this.#state === "over") return undefined;
    return this.#reader.read().then(this.#onRead, this.#onFault);
  }

  cancel(reason: unknown): Promise<void> {
    this.#finish();
    return this.#reader.cancel(reason);
  }

  readonly #onRead = ({ done, value }: ReadStep<T>): void => {
    try {
      if (this.#state === "over") return;
      if (done) {
        if (this.#state === "watching") this.#hold(END);
        else this.#close();
      } else if (this.#state === "watching") {
        if (this.#rules.failure(value)) this.#endWith(value);
        else if (this.#rules.isTerminal(value)) this.#hold(value);
        else this.#controller.enqueue(value);
      } else if (this.#state === "released" && this.#rules.failure(value)) {
        this.#close();
        this.#reader.cancel().catch(ignore);
      } else {
        this.#controller.enqueue(value);
      }
    } catch (error) {
      // A rule threw: the stream is of no use any more, and its source has to hear of it.
      this.#onFault(error);
      this.#reader.cancel(error).catch(ignore);
    }
  };

  readonly #onFault = (error: unknown): void => {
    if (this.#state === "over") return;
    if (this.#state === "released") {
      this.#close();
      return;
    }
    this.#finish();
    this.#controller.error(error);
  };

  readonly #onPrefill = (outcome: PrefillOutcome): void => {
    if (outcome.ok) {
      if (this.#state === "holding") this.#release();
      else if (this.#state === "watching") this.#state = "passing";
      return;
    }
    const { error } = outcome;
    this.#finish();
    try {
      this.#controller.enqueue(this.#rules.errorItem(error));
      this.#controller.close();
    } catch (fault) {
      this.#controller.error(fault);
    }
    this.#reader.cancel(error).catch(ignore);
    this.#cancelDecode(error);
  };

  #hold(success: T | typeof END): void {
    this.#held = success;
    const { clock, limits } = this.#ports;
    if (limits.settleMs === 0) {
      this.#release();
      return;
    }
    this.#state = "holding";
    this.#stopClock = clock.after(limits.settleMs, this.#release);
  }

  readonly #release = (): void => {
    const held = this.#held;
    this.#finish();
    if (held === END) {
      this.#controller.close();
    } else {
      this.#state = "released";
      this.#controller.enqueue(held);
    }
  };

  /** Decode's own failure: the last item of this stream. */
  #endWith(item: T): void {
    this.#finish();
    this.#controller.enqueue(item);
    this.#controller.close();
    this.#reader.cancel().catch(ignore);
  }

  #close(): void {
    this.#finish();
    this.#controller.close();
  }

  /** Nothing that happens to prefill or the clock matters from here on. */
  #finish(): void {
    this.#state = "over";
    this.#held = END;
    this.#unsubscribe();
    this.#stopClock?.();
    this.#stopClock = undefined;
  }
}

function ignore(): void {}
