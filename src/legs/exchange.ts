/** What is read of an answer's headers. Names are lower-case; a `Headers` is one. */
export interface AnswerHeaders {
  get(name: string): string | null;
  has(name: string): boolean;
  forEach(visit: (value: string, name: string) => void): void;
}

export interface AnswerHead {
  readonly status: number;
  readonly headers: AnswerHeaders;
}

/** Hears how an answer begins: one of the two, once, and not before `send` has returned. */
export interface HeadListener {
  head(head: AnswerHead): void;
  failed(error: unknown): void;
}

/** Hears what a read has brought: one of the two, once per read. An object, since a stream of tokens is read a thousand times by the same one. */
export interface BodyReader {
  /** The next bytes, `undefined` at the clean end. */
  chunk(bytes: Uint8Array | undefined): void;
  cut(error: unknown): void;
}

/** One request to one engine and its answer. Sent when it is made. */
export interface Exchange {
  /** Tells the reader of the next bytes of the body, not before the call has returned. One at a time, after the head has come. */
  read(reader: BodyReader): void;
  /** The whole body, instead of `read`; itself if it has come already, as a short one has with its head. */
  text(): string | Promise<string>;
  /** Gives request and answer up: the engine sees its connection closed, and what is outstanding here fails. Idempotent. */
  close(): void;
}
