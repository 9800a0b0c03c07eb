export type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>;

/** A body that came compressed although `identity` was asked for, as it was before. `undefined` for a coding that nobody knows. */
export type Unpack = (body: Bytes, encodings: string) => Bytes | undefined;

export type Unpacker = ReadableWritablePair<Uint8Array<ArrayBuffer>, BufferSource>;

/** By content codings (RFC 9110 section 8.4.1); the last one applied comes off first. `unpackerOf` has a way to make one for those it knows. */
export function unpackBy(unpackerOf: (coding: string) => (() => Unpacker) | undefined): Unpack {
  return function unpack(body, encodings) {
    const makers: (() => Unpacker)[] = [];
    for (const coding of encodings.split(",")) {
      const make = unpackerOf(coding.trim().toLowerCase());
      if (make === undefined) return undefined;
      makers.unshift(make);
    }
    return makers.reduce((stream, make) => stream.pipeThrough(make()), body);
  };
}
