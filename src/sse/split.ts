const LF = 10;
const CR = 13;

/** Where one event lies in a block: bytes `start` up to, not including, `end`. */
export interface EventSpan {
  start: number;
  end: number;
}

/**
 * The events of a block that `SseFramer` released (or flushed), in order. The spans lie end to end and cover every byte: a blank line too many
 * belongs to the event after it, at the end of the block to the event before it; a rest without its blank line is the last event; a block
 * of blank lines alone is one span. Linear in the block's length.
 */
export function eventSpans(block: Uint8Array): EventSpan[] {
  const spans: EventSpan[] = [];
  let start = 0;
  let lineStart = 0;
  // A line with something on it was seen since `start`: only then a blank line ends an event.
  let filled = false;
  let nextLf = block.indexOf(LF);
  let nextCr = block.indexOf(CR);
  while (nextLf >= 0 || nextCr >= 0) {
    const lineEnd = nextCr < 0 || (nextLf >= 0 && nextLf < nextCr) ? nextLf : nextCr;
    const next = lineEnd + (lineEnd === nextCr && nextLf === lineEnd + 1 ? 2 : 1);
    if (lineEnd > lineStart) {
      filled = true;
    } else if (filled) {
      spans.push({ start, end: next });
      start = next;
      filled = false;
    }
    lineStart = next;
    if (nextLf >= 0 && nextLf < next) nextLf = block.indexOf(LF, next);
    if (nextCr >= 0 && nextCr < next) nextCr = block.indexOf(CR, next);
  }
  if (start < block.length) {
    const last = spans[spans.length - 1];
    if (last !== undefined && !filled && lineStart === block.length) last.end = block.length;
    else spans.push({ start, end: block.length });
  }
  return spans;
}
