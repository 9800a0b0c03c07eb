const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LF = 10;
const CR = 13;

/** From this size on an outline is cheaper than the whole text. */
const LONG_BLOCK = 4_096;
/** From this size on, on the average, events of a block are made text one by one. */
const LONG_EVENT = 1_024;
/** A string of more bytes is cut to its beginning; what a mark needs of one (`"error: …`) stands there. */
const LONG_STRING = 256;
const KEPT = 16;
/** Finding a quotation mark costs as much as searching some 64 bytes for marks: text with more of them has no outline that is worth it. */
const BYTES_PER_QUOTE = 128;

const latin1 = new TextDecoder("latin1");

/**
 * A block of whole events as text for the search for marks, a character a byte. In a large block the inside of long JSON strings is left out:
 * an event of 16 KB is one long string and some 200 bytes around it, and only those can hold a key.
 *
 * Exact for every line that is JSON, where quotes outside of strings do not occur and line ends inside of them do not either. A string that seems
 * to go beyond its line (a comment with a quotation mark, say) is a sign that this does not hold: then it is the whole text.
 */
export function outline(block: Uint8Array): string {
  return (block.length < LONG_BLOCK ? undefined : outlineOf(block)) ?? latin1.decode(block);
}

/** Outlines of the `count` events of a block. Where they are small, as most are, they are pieces of one text: dozens may stand in a block. */
export function eventOutlines(block: Uint8Array, count: number): (start: number, end: number) => string {
  if (block.length >= count * LONG_EVENT) return (start, end) => outline(block.subarray(start, end));
  const text = latin1.decode(block);
  return (start, end) => text.slice(start, end);
}

/** Whether one of the lines is a `data` field with something in it; nearly every text begins with one. */
export function hasData(text: string): boolean {
  return text.startsWith("data:") || text.includes("\ndata:") || text.includes("\rdata:");
}

function outlineOf(block: Uint8Array): string | undefined {
  let text = "";
  let done = 0;
  let quotes = 0;
  const most = block.length / BYTES_PER_QUOTE;
  let lineEnd = -1;
  if (block.includes(CR)) return undefined;
  for (let open = block.indexOf(QUOTE); open >= 0; ) {
    if (lineEnd < open) {
      lineEnd = block.indexOf(LF, open);
      if (lineEnd < 0) lineEnd = block.length;
    }
    let close = block.indexOf(QUOTE, open + 1);
    while (close >= 0 && isEscaped(block, close) && ++quotes <= most) close = block.indexOf(QUOTE, close + 1);
    quotes++;
    if (close < 0 || close > lineEnd || quotes > most) return undefined;
    if (close - open > LONG_STRING) {
      text += latin1.decode(block.subarray(done, open + 1 + KEPT));
      done = close;
    }
    open = block.indexOf(QUOTE, close + 1);
  }
  return text + latin1.decode(block.subarray(done));
}

/** Is the quotation mark at `at` the second half of an escape? */
function isEscaped(block: Uint8Array, at: number): boolean {
  let first = at;
  while (block[first - 1] === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}
