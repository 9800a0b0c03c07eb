import { findMember } from "./member.ts";
import { JsonError, type JsonObject, type Member, type Span, scanArrayAt, scanObjectAt, scanValue } from "./scan.ts";
import { splice } from "./splice.ts";

const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;

/** A string as a JSON string literal, quotes included; a lone surrogate is written as its escape. */
export function jsonString(value: string): string {
  return JSON.stringify(value);
}

/**
 * One value inside a JSON text replaced, every other byte left as it came; for the relay's few edits of an event, such
 * as `["choices", 0, "index"]`.
 *
 * A missing member is added at the last step of the path. At the last step but one a missing member, or `null`, is made an
 * object that holds it (engines send `"prompt_tokens_details": null`). Of duplicate keys the last one is edited.
 *
 * @param path object keys (decoded) and array indices, outermost first
 * @param raw JSON text of the new value; the caller vouches for its validity
 * @returns the edited text, or the same text when it is not JSON, or the path leads through anything else that is missing
 *   or no container: what a decode engine wrote is then passed on as it is
 */
export function setAt(text: string, path: readonly (string | number)[], raw: string): string {
  const root = rootOf(text);
  if (root === undefined) return text;
  let at = root;
  for (let i = 0; i < path.length; i++) {
    const step = path[i]!;
    const left = path.length - i - 1;
    const first = text.charCodeAt(at.start);
    if (typeof step === "number") {
      if (first !== OPEN_BRACKET) return text;
      const element = scanArrayAt(text, at.start)[step];
      if (element === undefined) return text;
      at = element;
      continue;
    }
    if (first !== OPEN_BRACE) return text;
    const doc = scanObjectAt(text, at.start);
    const member = findMember(doc, step);
    if (member !== undefined && !(left === 1 && isNull(text, member))) {
      at = { start: member.valueStart, end: member.valueEnd };
      continue;
    }
    const made = madeValue(path.slice(i + 1), raw);
    return made === undefined ? text : replaceValue(doc, step, made);
  }
  return replaceSpan(text, at, raw);
}

/**
 * One member's value replaced in place, or the member appended: of duplicates the last one is edited and the earlier
 * ones stay, unlike `splice`, which removes them.
 *
 * @returns the whole text that holds the object
 */
export function replaceValue(doc: JsonObject, key: string, raw: string): string {
  const member = findMember(doc, key);
  if (member === undefined) return splice(doc, { set: Object.fromEntries([[key, raw]]) });
  return replaceSpan(doc.text, { start: member.valueStart, end: member.valueEnd }, raw);
}

/** The text with one span of it replaced. */
export function replaceSpan(text: string, span: Span, raw: string): string {
  return text.slice(0, span.start) + raw + text.slice(span.end);
}

/** The value to put where the path ends early: `raw` itself, or one object around it. Undefined: more would have to be made up. */
function madeValue(rest: readonly (string | number)[], raw: string): string | undefined {
  if (rest.length === 0) return raw;
  const [key] = rest;
  if (rest.length > 1 || typeof key !== "string") return undefined;
  return `{${jsonString(key)}:${raw}}`;
}

function isNull(text: string, member: Member): boolean {
  return text.charCodeAt(member.valueStart) === 0x6e;
}

function rootOf(text: string): Span | undefined {
  try {
    return scanValue(text);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}
