import type { BodyReader } from "./exchange.ts";

type Step = { done: boolean; value?: Uint8Array | undefined };

/** A stream read chunk by chunk: the two callbacks are made once, since in a stream of tokens each closure counts. */
export class StreamBody {
  readonly #stream: ReadableStreamDefaultReader<Uint8Array>;
  #reader: BodyReader | undefined;
  #cancelled = false;
  readonly #onStep: (step: Step) => void;
  readonly #onCut: (error: unknown) => void;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#stream = stream.getReader();
    this.#onStep = ({ done, value }) => {
      // A cancelled stream looks like one that has come to its end.
      if (this.#cancelled) this.#reader!.cut(new Error("Closed from here"));
      else this.#reader!.chunk(done ? undefined : value);
    };
    this.#onCut = (error) => this.#reader!.cut(error);
  }

  /** See `Exchange.read`. */
  read(reader: BodyReader): void {
    this.#reader = reader;
    this.#stream.read().then(this.#onStep, this.#onCut);
  }

  /** What is pending fails. The stream's own rejection, an echo of the closing, is no news. */
  cancel(): void {
    this.#cancelled = true;
    this.#stream.cancel().catch(ignore);
  }
}

function ignore(): void {}
