type Taker = (bytes: Uint8Array | undefined) => void;

const NO_BYTES = new Uint8Array(0);
const LARGE_BLOCK = 16_384;

/** What is ready for the client, and the client that waits for it. Blocks that are ready together go out together. */
export class Outbox {
  #blocks: Uint8Array[] = [];
  #taker: Taker | undefined;
  bytesOut = 0;
  blocksOut = 0;

  get empty(): boolean {
    return this.#blocks.length === 0;
  }

  /** The client has asked and has got nothing yet. */
  get awaited(): boolean {
    return this.#taker !== undefined;
  }

  push(block: Uint8Array): void {
    this.#blocks.push(block);
  }

  clear(): void {
    this.#blocks.length = 0;
  }

  /** All that is ready, as one block; a large one alone, since a copy of it costs more than a write of its own. */
  take(): Uint8Array {
    let bytes = this.#blocks[0]!;
    if (this.#blocks.length > 1 && bytes.length >= LARGE_BLOCK) {
      this.#blocks.shift();
    } else {
      if (this.#blocks.length > 1) bytes = concat(this.#blocks);
      this.#blocks.length = 0;
    }
    this.bytesOut += bytes.length;
    this.blocksOut++;
    return bytes;
  }

  /** Calls `taker` once: at the next `deliver`, or with undefined at the end. */
  await(taker: Taker): void {
    this.#taker = taker;
  }

  /** Hands over what is ready, if somebody waits for it. */
  deliver(): void {
    const taker = this.#taker;
    if (taker === undefined || this.#blocks.length === 0) return;
    this.#taker = undefined;
    taker(this.take());
  }

  /** Nothing more will come: whoever waits gets what is left, or the end. */
  end(): void {
    this.deliver();
    const taker = this.#taker;
    this.#taker = undefined;
    taker?.(undefined);
  }
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  if (length === 0) return NO_BYTES;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
