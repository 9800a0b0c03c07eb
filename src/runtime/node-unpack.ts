import { Duplex, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { type Unpacker, unpackBy } from "./unpack.ts";

/** Node's own; its `DecompressionStream` knows two of them. zstd came with 22.15. */
const UNPACKERS: ReadonlyMap<string, (() => Transform) | undefined> = new Map<string, (() => Transform) | undefined>([
  ["gzip", zlib.createGunzip],
  ["x-gzip", zlib.createGunzip],
  ["deflate", zlib.createInflate],
  ["br", zlib.createBrotliDecompress],
  ["zstd", zlib.createZstdDecompress as (() => Transform) | undefined],
]);

/** A body that came compressed although `identity` was asked for, unpacked as it is read. */
export const unpackedByNode = unpackBy((coding) => {
  const make = UNPACKERS.get(coding);
  return make === undefined ? undefined : () => Duplex.toWeb(make()) as unknown as Unpacker;
});
