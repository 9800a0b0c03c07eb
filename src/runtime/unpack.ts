export type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>;

/** A body that came compressed although `identity` was asked for, as it was before. `undefined` for a coding that nobody knows. */
export type Unpack = (body: Bytes, encodings: string) => Bytes | undefined;

export type Unpacker = ReadableWritablePair<Uint8Array<ArrayBuffer>, BufferSource>;

/** Of a compressed body, at a time: what comes of it is a thousand times as much with gzip, and a million times with the others. */
const PACKED_PIECE = 4_096;
const DENSELY_PACKED_PIECE = 16;

/** So many bytes on the wire may be unpacked at once. */
export function pieceOf(encodings: string): number {
  return /^\s*(?:x-)?(?:gzip|deflate)\s*$/i.test(encodings) ? PACKED_PIECE : DENSELY_PACKED_PIECE;
}

/** Nobody packs more than once; each costs its memory, and a head has room for ten thousands. */
const MOST_CODINGS = 2;

/** By content codings (RFC 9110 section 8.4.1); the last one applied comes off first. `unpackerOf` has a way to make one for those it knows. */
export function unpackBy(unpackerOf: (coding: string) => (() => Unpacker) | undefined): Unpack {
  return function unpack(body, encodings) {
    const makers: (() => Unpacker)[] = [];
    for (const name of encodings.split(",", MOST_CODINGS + 1)) {
      const coding = name.trim().toLowerCase();
      if (coding === "identity") continue;
      const make = unpackerOf(coding);
      if (make === undefined || makers.length === MOST_CODINGS) return undefined;
      makers.unshift(make);
    }
    if (makers.length === 0) return undefined;
    return makers.reduce((stream, make) => stream.pipeThrough(make()), body);
  };
}
