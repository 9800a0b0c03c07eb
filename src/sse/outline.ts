const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LF = 10;
const CR = 13;

/** From this size on an outline is cheaper than the whole text (bench/sse.ts). */
const LONG_BLOCK = 4_096;
/** A string of more bytes is cut to its beginning; what a mark needs of one (`"error: …`) stands there. */
const LONG_STRING = 256;
const KEPT = 16;
/** Text full of escaped quotes has no outline worth the search. */
const MOST_QUOTES = 64;

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

function outlineOf(block: Uint8Array): string | undefined {
  let text = "";
  let done = 0;
  let quotes = 0;
  let lineEnd = -1;
  const carriageReturns = block.includes(CR);
  for (let open = block.indexOf(QUOTE); open >= 0; ) {
    if (carriageReturns) return undefined;
    if (lineEnd < open) {
      lineEnd = block.indexOf(LF, open);
      if (lineEnd < 0) lineEnd = block.length;
    }
    let close = block.indexOf(QUOTE, open + 1);
    while (close >= 0 && isEscaped(block, close) && ++quotes <= MOST_QUOTES) close = block.indexOf(QUOTE, close + 1);
    quotes++;
    if (close < 0 || close > lineEnd || quotes > MOST_QUOTES) return undefined;
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
