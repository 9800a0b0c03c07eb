const LF = 10;
const CR = 13;

/**
 * Cuts a byte stream into blocks of whole server-sent events (WHATWG HTML, section 9.2.6: lines end with LF, CRLF or CR, a blank line ends an
 * event). Bytes go out in order, unchanged and complete; only an unfinished event is held back. Chunks given in must not be written to
 * afterwards: blocks are views of them wherever possible.
 */
export class SseFramer {
  // Either a view of somebody's chunk, exactly `#size` long, or a buffer of ours that may have room behind `#size`.
  #held: Uint8Array | undefined;
  #size = 0;
  // The last two bytes that came: all that a line end in the next chunk depends on. The one before the last matters after a CR only, so the
  // fast path leaves it. A stream starts as if after a blank line.
  #last = LF;
  #beforeLast = LF;

  /** Bytes of the unfinished event that are held back. */
  get pending(): number {
    return this.#size;
  }

  /**
   * Takes the next chunk of any size. Returns the bytes of the events that are now whole, or undefined when there are none. A block may
   * consist of blank lines alone: the LF of a CRLF whose CR has already ended an event, for instance, is passed on as it comes.
   */
  push(chunk: Uint8Array): Uint8Array | undefined {
    const length = chunk.length;
    // Engines write an event per chunk and end it with LF LF. The first of the two ends a line whatever came before it (be it the second
    // half of a CRLF cut in two), so the second is a blank line: the block ends here, and with nothing held it is the chunk itself.
    if (length > 1 && this.#size === 0 && chunk[length - 1] === LF && chunk[length - 2] === LF) {
      this.#last = LF;
      return chunk;
    }
    return this.#cut(chunk);
  }

  /** The unfinished rest, at the end of the body. Undefined when there is none. */
  flush(): Uint8Array | undefined {
    const rest = this.#held?.subarray(0, this.#size);
    this.#forget();
    return rest;
  }

  #cut(chunk: Uint8Array): Uint8Array | undefined {
    const length = chunk.length;
    if (length === 0) return undefined;
    const end = this.#lastBoundary(chunk);
    this.#beforeLast = length > 1 ? chunk[length - 2]! : this.#last;
    this.#last = chunk[length - 1]!;
    if (end === 0) {
      this.#hold(chunk, 2);
      return undefined;
    }
    const front = end === length ? chunk : chunk.subarray(0, end);
    let block = front;
    if (this.#size > 0) {
      this.#hold(front, 1);
      block = this.#held!.subarray(0, this.#size);
      this.#forget();
    }
    if (end < length) this.#hold(chunk.subarray(end), 2);
    return block;
  }

  /** Offset just after the last blank line in the chunk; 0 when none ends in it. */
  #lastBoundary(chunk: Uint8Array): number {
    const length = chunk.length;
    if (this.#endsEvent(chunk, length - 1)) return length;
    let end = 0;
    for (let at = chunk.lastIndexOf(LF); at >= 0; at = at === 0 ? -1 : chunk.lastIndexOf(LF, at - 1)) {
      if (this.#endsEvent(chunk, at)) {
        end = at + 1;
        break;
      }
    }
    const rest = end === 0 ? chunk : chunk.subarray(end);
    for (let at = rest.lastIndexOf(CR); at >= 0; at = at === 0 ? -1 : rest.lastIndexOf(CR, at - 1)) {
      if (this.#endsEvent(chunk, end + at)) return end + at + 1;
    }
    return end;
  }

  /** Is the byte at `at` the last one of a blank line? Looks at it and the two before it, across the chunk's front. */
  #endsEvent(chunk: Uint8Array, at: number): boolean {
    const byte = chunk[at];
    const before = at > 0 ? chunk[at - 1] : this.#last;
    if (byte === CR) return before === LF || before === CR;
    if (byte !== LF) return false;
    if (before !== CR) return before === LF;
    const first = at > 1 ? chunk[at - 2] : at === 1 ? this.#last : this.#beforeLast;
    return first === LF || first === CR;
  }

  /** Appends to what is held. Growing by `factor` keeps an event of many small pieces linear; one piece alone is not copied. */
  #hold(piece: Uint8Array, factor: number): void {
    const size = this.#size + piece.length;
    if (this.#size === 0) {
      this.#held = piece;
    } else {
      if (this.#held!.length < size) {
        const grown = new Uint8Array(size * factor);
        grown.set(this.#held!.subarray(0, this.#size));
        this.#held = grown;
      }
      this.#held!.set(piece, this.#size);
    }
    this.#size = size;
  }

  #forget(): void {
    this.#held = undefined;
    this.#size = 0;
  }
}
