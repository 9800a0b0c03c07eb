/** A byte order mark is one at the very beginning of a stream only; behind anything else it would be part of the next event's first field. */
export function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}
