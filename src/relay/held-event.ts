import type { PrefillTail } from "../prefill/task.ts";
import type { EventMeaning } from "../sse/api.ts";
import type { ParsedEvent } from "../sse/parse-event.ts";

/** One whole event of decode that was looked at, with its bytes as they came. */
export interface SeenEvent {
  bytes: Uint8Array;
  parsed: ParsedEvent;
  meaning: EventMeaning;
}

/**
 * Changes a request needs in decode's events (contract section 5: alias, split requests, usage, input logprobs). Answers the new `data`,
 * or undefined to leave the event as it came. Called at the moment an event goes out, when prefill's tail is known if it ever will be.
 */
export interface EventEditor {
  /** Every event has to be looked at, not only those with marks. */
  readonly everyEvent: boolean;
  /** The first answer waits for prefill's tail (input logprobs). */
  readonly needsTail: boolean;
  edit(data: string, meaning: EventMeaning, tail: PrefillTail | undefined): string | undefined;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function dataAt(text: string): number {
  if (text.startsWith("data:")) return 0;
  return Math.max(0, text.search(/[\r\n]data:/));
}

/** The event's bytes with other data; every other line, and the bytes of the data line around it, stay. */
export function withData(event: SeenEvent, data: string): Uint8Array {
  const text = decoder.decode(event.bytes);
  const old = event.parsed.data ?? "";
  // Behind its field's name: an `id` may hold the same.
  const at = text.indexOf(old, dataAt(text));
  if (at >= 0 && old !== "") return encoder.encode(text.slice(0, at) + data + text.slice(at + old.length));
  // Data over several lines: kept lines first, then the new data as one line. A line end in JSON is white space between its tokens.
  const kept = text.split(/\r\n|\r|\n/).filter((line) => line !== "" && !line.startsWith("data"));
  return encoder.encode(`${kept.map((line) => `${line}\n`).join("")}data: ${data.replaceAll("\n", " ")}\n\n`);
}
