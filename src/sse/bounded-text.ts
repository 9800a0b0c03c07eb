/** Longest `message` that leaves the router, in bytes of UTF-8 (contract section 4). */
export const maxMessageBytes = 8192;

const encoder = new TextEncoder();
const mark = "…";

/** `text` itself when it fits into `limit` bytes of UTF-8, else its front and "…", together within the limit. No character is cut in two. */
export function boundedText(text: string, limit = maxMessageBytes): string {
  // A UTF-16 unit takes at most three bytes, so most messages need no counting.
  if (text.length * 3 <= limit) return text;
  const room = new Uint8Array(limit);
  // `encodeInto` stops before the first character that does not fit, whatever the length of the text behind it.
  if (encoder.encodeInto(text, room).read === text.length) return text;
  return text.slice(0, encoder.encodeInto(text, room.subarray(0, limit - 3)).read) + mark;
}
