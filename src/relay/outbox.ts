/** Who takes what is for the client. */
export interface BytesTaker {
  /** The next bytes, undefined at the end. */
  take(bytes: Uint8Array | undefined): void;
}

const NO_BYTES = new Uint8Array(0);
const LARGE_BLOCK = 16_384;

/** What is ready for the client, and the client that waits for it. Blocks that are ready together go out together. */
export class Outbox {
  #first: Uint8Array | undefined;
  /** Behind the first one, if there ever is more than one. */
  #more: Uint8Array[] | undefined;
  #taker: BytesTaker | undefined;
  /** What has been taken so far. */
  bytesOut = 0;
  blocksOut = 0;

  get empty(): boolean {
    return this.#first === undefined;
  }

  /** The client has asked and has got nothing yet. */
  get awaited(): boolean {
    return this.#taker !== undefined;
  }

  push(block: Uint8Array): void {
    if (this.#first === undefined) this.#first = block;
    else if (this.#more === undefined) this.#more = [block];
    else this.#more.push(block);
  }

  clear(): void {
    this.#first = undefined;
    this.#more = undefined;
  }

  /** All that is ready, as one block; a large one alone, since a copy of it costs more than a write of its own. */
  take(): Uint8Array {
    let bytes = this.#first!;
    this.#first = undefined;
    const more = this.#more;
    if (more !== undefined && more.length > 0) {
      if (bytes.length >= LARGE_BLOCK) {
        this.#first = more.shift();
      } else {
        bytes = concat([bytes, ...more]);
        more.length = 0;
      }
    }
    this.bytesOut += bytes.length;
    this.blocksOut++;
    return bytes;
  }

  /** What the client has got, with what is ready for it, in the blocks in which it is given. */
  given(): { bytes: number; blocks: number } {
    let { bytesOut: bytes, blocksOut: blocks } = this;
    let leading = this.#first;
    if (leading === undefined) return { bytes, blocks };
    bytes += leading.length;
    blocks++;
    for (const block of this.#more ?? []) {
      bytes += block.length;
      // As `take` has it: a large one goes alone, all else together.
      if (leading.length < LARGE_BLOCK) continue;
      blocks++;
      leading = block;
    }
    return { bytes, blocks };
  }

  /** Gives to `taker` once: at the next `deliver`, or undefined at the end. */
  await(taker: BytesTaker): void {
    this.#taker = taker;
  }

  /** Hands over what is ready, if somebody waits for it. */
  deliver(): void {
    const taker = this.#taker;
    if (taker === undefined || this.#first === undefined) return;
    this.#taker = undefined;
    taker.take(this.take());
  }

  /** Nothing more will come: whoever waits gets what is left, or the end. */
  end(): void {
    this.deliver();
    const taker = this.#taker;
    this.#taker = undefined;
    taker?.take(undefined);
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
