import { createParser } from "eventsource-parser";

/** One event after the field grammar of the standard. */
export interface ParsedEvent {
  /** `message` where no `event` field names another. */
  type: string;
  /** All data lines joined by LF; undefined when there is none: then nothing is dispatched, whatever the `event` field says. */
  data: string | undefined;
  /** There are comment lines and no data: a sign of life, nothing more. */
  comment: boolean;
}

// One leading U+FEFF is taken off by the parser; a second decoder doing so too would take off two.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Reads one event (one span of `eventSpans`) by WHATWG HTML, section 9.2.6; `id` and `retry` are ignored. An event that lacks its blank line,
 * as the last one before the end of a body may, is read as if it had it: engines have been seen to end on a bare `data: [DONE]`.
 */
export function parseEvent(bytes: Uint8Array): ParsedEvent {
  const event: ParsedEvent = { type: "message", data: undefined, comment: false };
  const parser = createParser({
    onEvent(message) {
      if (event.data !== undefined) return;
      event.data = message.data;
      event.type = message.event ?? "message";
    },
    onComment() {
      event.comment = true;
    },
  });
  parser.feed(utf8.decode(bytes));
  // Ends an unfinished line (the first LF may be swallowed by a CR before it) and an unfinished event; after a whole event it does nothing.
  parser.feed("\n\n");
  if (event.data !== undefined) event.comment = false;
  return event;
}
