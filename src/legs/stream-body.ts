type Step = { done: boolean; value?: Uint8Array | undefined };

/** A stream read chunk by chunk with callbacks: the two of them are made once, since in a stream of tokens each promise and each closure counts. */
export class StreamBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #take: ((chunk: Uint8Array | undefined) => void) | undefined;
  #fail: ((error: unknown) => void) | undefined;
  #cancelled = false;
  readonly #onStep: (step: Step) => void;
  readonly #onCut: (error: unknown) => void;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
    this.#onStep = ({ done, value }) => {
      // A cancelled stream looks like one that has come to its end.
      if (this.#cancelled) this.#fail!(new Error("Closed from here"));
      else this.#take!(done ? undefined : value);
    };
    this.#onCut = (error) => this.#fail!(error);
  }

  /** See `Exchange.read`. */
  read(take: (chunk: Uint8Array | undefined) => void, fail: (error: unknown) => void): void {
    this.#take = take;
    this.#fail = fail;
    this.#reader.read().then(this.#onStep, this.#onCut);
  }

  /** What is pending fails. The stream's own rejection, an echo of the closing, is no news. */
  cancel(): void {
    this.#cancelled = true;
    this.#reader.cancel().catch(ignore);
  }
}

function ignore(): void {}
