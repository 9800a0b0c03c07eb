import fc from "fast-check";

// What the tests of this room share: streams made of every legal kind of line, and ways to cut them.

const encoder = new TextEncoder();

export function bytesOf(text: string): Uint8Array {
  return encoder.encode(text);
}

export function latin1Of(bytes: Uint8Array): string {
  return new TextDecoder("windows-1252").decode(bytes);
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export const lineEnds = fc.constantFrom("\n", "\r\n", "\r");

const lines = fc.constantFrom(
  "",
  "",
  "",
  "data: a",
  "data:b",
  "data",
  "data: é日🎉",
  "data: [DONE]",
  ": ping",
  ":",
  "event: error",
  "event:x",
  "id: 7",
  "retry: 10",
  "no field",
);

/** A stream with any mixture of line ends, blank lines too many, maybe a BOM in front, maybe an unfinished rest. */
export const streams = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(lines, lineEnds), { maxLength: 24 }), fc.constantFrom("", "data: half"))
  .map(([bom, parts, rest]) => bytesOf((bom ? "\uFEFF" : "") + parts.map(([line, end]) => line + end).join("") + rest));

/** A stream and the sorted offsets it is cut at; equal neighbours make empty chunks. */
export const cutStreams = streams.chain((bytes) =>
  fc.tuple(
    fc.constant(bytes),
    fc.oneof(
      fc.array(fc.nat(bytes.length), { maxLength: 12 }).map((cuts) => cuts.sort((a, b) => a - b)),
      fc.constant(Array.from(bytes, (_, at) => at)),
    ),
  ),
);

export function cut(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const edges = [0, ...cuts, bytes.length];
  return edges.slice(1).map((end, at) => bytes.slice(edges[at], end));
}

/** Offsets at which every event is whole, byte by byte from the standard's text: after each blank line, before and after the LF of its CRLF. */
export function boundaries(bytes: Uint8Array): Set<number> {
  const found = new Set([0]);
  let empty = true;
  let afterCr = false;
  let blankCr = false;
  for (const [at, byte] of bytes.entries()) {
    if (byte === 10 && afterCr) {
      if (blankCr) found.add(at + 1);
      afterCr = false;
      continue;
    }
    const ends = byte === 10 || byte === 13;
    if (ends && empty) found.add(at + 1);
    afterCr = byte === 13;
    blankCr = afterCr && empty;
    empty = ends;
  }
  return found;
}
