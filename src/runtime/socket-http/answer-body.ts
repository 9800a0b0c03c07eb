/** How the bytes after a head are an answer's body, and where that ends (RFC 9112 section 6.3). */
export interface AnswerBody {
  /** It has come to its end. */
  readonly complete: boolean;
  /** Something came after its end that nobody has asked for. */
  readonly overrun: boolean;
  /** What is wrong with its bytes; what was right before that counts nevertheless. */
  readonly error: Error | undefined;
  /** Takes bytes off the connection, from `at` on, which are its own from now on; gives what of them is the body's. */
  push(bytes: Uint8Array, at: number): Uint8Array | undefined;
  /** The connection has ended: an Error where that is no way for this body to end. */
  end(): Error | undefined;
}

/** The connection ended in the middle. By llhttp's name for it. */
export function cutBody(): Error {
  return Object.assign(new Error("The engine closed the connection in the middle of its answer"), {
    code: "HPE_INVALID_EOF_STATE",
  });
}

/** Up to here a typed array's bytes are in JavaScript's own heap, where a copy costs less than a view; beyond, a view copies nothing. */
const SHORT = 1_000;

export function part(bytes: Uint8Array, start: number, end: number): Uint8Array {
  const { length } = bytes;
  if (start === 0 && end === length) return bytes;
  // A byte among the extensions of its chunk must not keep all of them in memory.
  return length <= SHORT || (end - start) * 2 < length ? bytes.slice(start, end) : bytes.subarray(start, end);
}
