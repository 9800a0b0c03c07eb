import { parseEvent } from "../sse/parse-event.ts";

/**
 * The unfinished rest of a body as an event: with its blank line when its data is whole, undefined otherwise (WHATWG drops it always;
 * engines do forget the line).
 */
export function lastEvent(rest: Uint8Array): Uint8Array | undefined {
  // One line end where the last line has its own; a CR alone may be half of one.
  const ended = new Uint8Array(rest.length + (rest[rest.length - 1] === 10 ? 1 : 2));
  ended.set(rest);
  ended.fill(10, rest.length);
  const { data } = parseEvent(ended);
  return data === "[DONE]" || (data !== undefined && isJson(data)) ? ended : undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
