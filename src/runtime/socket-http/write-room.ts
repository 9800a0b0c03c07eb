import type { Pieces } from "../../json/pieces.ts";

/** A head that is longer has its request put together the slow way. */
const HEAD_ROOM = 16_384;
/** Characters. Longer bodies are rare, and would make the room large. */
const LONGEST = 262_144;
/** A body that is longer is not kept as text beyond its turn of the event loop. */
const SHORT = 4_096;
/** A character of UTF-16 is three bytes of UTF-8 at most. */
const BYTES = 3;

/**
 * The one place in memory where requests are put together on their way to a socket: a body is encoded once for both legs of its request, each
 * of which puts its own head before it, and the socket copies nothing. (As text, each leg had a copy of the whole made for it, and Bun's
 * socket another: 10 µs of a request with a prompt of 64 KB, 2 of a short one.)
 */
export class WriteRoom {
  #room: Buffer | undefined;
  #body: Pieces | undefined;
  #bodyBytes = 0;

  /** Whether a body goes here. */
  static fits(body: Pieces): boolean {
    return body.length <= LONGEST;
  }

  /** Puts a body in. Gives its length in bytes. */
  put(body: Pieces): number {
    if (body === this.#body) return this.#bodyBytes;
    this.#room ??= Buffer.allocUnsafeSlow(HEAD_ROOM + LONGEST * BYTES);
    let end = HEAD_ROOM;
    for (const part of body.parts) end += this.#room.write(part, end);
    this.#bodyBytes = end - HEAD_ROOM;
    // Only for the other leg, which is sent in the same turn.
    if (body.length > SHORT) setImmediate(() => this.#forget());
    this.#body = body;
    return this.#bodyBytes;
  }

  /** The body with `head` (latin1) before it, until the next `put` or `with`. `undefined`: the head is too long. */
  with(head: string): Buffer | undefined {
    const start = HEAD_ROOM - head.length;
    if (start < 0) return undefined;
    this.#room!.write(head, start, "latin1");
    return this.#room!.subarray(start, HEAD_ROOM + this.#bodyBytes);
  }

  #forget(): void {
    this.#body = undefined;
  }
}
