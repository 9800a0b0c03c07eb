/**
 * A text in pieces, one after the other. An edited body is a few views of the client's and a few words between them: joining them would copy
 * it, which costs 5 µs for a prompt of 64 KB and leaves as much garbage.
 */
export class Pieces {
  /** No text; what is left of a body that was sent. */
  static readonly NONE = new Pieces([]);

  readonly parts: readonly string[];
  #whole: string | undefined;

  constructor(parts: readonly string[]) {
    this.parts = parts;
  }

  /** UTF-16 code units. */
  get length(): number {
    let length = 0;
    for (const part of this.parts) length += part.length;
    return length;
  }

  /** Joined, once. */
  toString(): string {
    this.#whole ??= this.parts.length === 1 ? this.parts[0]! : this.parts.join("");
    return this.#whole;
  }
}
