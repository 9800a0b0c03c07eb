import { jsonString } from "../json/text.ts";

export const DONE_EVENT = "data: [DONE]\n\n";

/** A member of an object to be written: key, and JSON text; undefined leaves it out. */
export type Pair = readonly [key: string, raw: string | undefined];

/** JSON text of an object from members that are text already. */
export function objectText(pairs: readonly Pair[]): string {
  let out = "{";
  for (const [key, raw] of pairs) {
    if (raw !== undefined) out += `${out === "{" ? "" : ","}${jsonString(key)}:${raw}`;
  }
  return `${out}}`;
}

/** One event without a name. Its data is one line: a line end in JSON text can only be white space between its tokens. */
export function dataEvent(json: string): string {
  return `data: ${json.replace(/[\r\n]+/g, " ")}\n\n`;
}

/** One event under a name, as /v1/messages and /v1/responses have them. */
export function namedEvent(name: string, json: string): string {
  return `event: ${name}\n${dataEvent(json)}`;
}
