import { Cursor } from "./cursor.ts";
import { JsonError } from "./json-error.ts";

export { JsonError, type JsonErrorCode } from "./json-error.ts";

/** One member of an object, as positions in its text (UTF-16 code units). */
export interface Member {
  /** Decoded, so that `"\u006dax_tokens"` is `max_tokens`. */
  key: string;
  /** Of the key's opening quote. */
  keyStart: number;
  valueStart: number;
  /** Behind the value's last character; whitespace is outside. */
  valueEnd: number;
}

/** An object within a JSON text: the spans of its members, in order, duplicates included. */
export interface JsonObject {
  /** The whole text, of which the object may be a part. */
  text: string;
  /** Of `{`. */
  open: number;
  /** Of `}`. */
  close: number;
  members: Member[];
}

/** A value's place in a text. */
export interface Span {
  start: number;
  end: number;
}

export interface ScanOptions {
  /** Most containers within one another, the outermost included. Default 512. */
  maxDepth?: number;
  /** Most members of the object itself, duplicates included. Default 65,536. */
  maxMembers?: number;
}

const DEFAULT_MAX_DEPTH = 512;
/** A member's span costs 80 bytes and more: 32 MiB of `"a":1,` were half a gigabyte of them. No API has a hundred members. */
const DEFAULT_MAX_MEMBERS = 65_536;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Checks a text against RFC 8259, nested values included, and gives the spans of its top-level members.
 * Accepts exactly what `JSON.parse` accepts, when it is an object and within the limits of depth and members.
 *
 * @param text one JSON object, with any whitespace around it
 * @throws JsonError `not_json`, `not_object` (valid JSON of another type), `too_deep` or `too_many_members`
 */
export function scanObject(text: string, options?: ScanOptions): JsonObject {
  const maxDepth = options?.maxDepth ?? DEFAULT_MAX_DEPTH;
  const cursor = new Cursor(text, maxDepth, false);
  const start = cursor.skipSpace(0);
  if (text.charCodeAt(start) !== OPEN_BRACE) {
    expectEnd(cursor, text, cursor.skipValue(start, 0));
    throw new JsonError("not_object", "Expected a JSON object", start);
  }
  if (maxDepth < 1) throw new JsonError("too_deep", `Nested deeper than ${maxDepth} levels`, start);
  const doc = readObject(cursor, text, start, options?.maxMembers ?? DEFAULT_MAX_MEMBERS);
  expectEnd(cursor, text, doc.close + 1);
  return doc;
}

/**
 * Checks a text that may hold any JSON value.
 *
 * @returns where the value begins and ends; whitespace is outside
 * @throws JsonError `not_json` or `too_deep`
 */
export function scanValue(text: string, options?: ScanOptions): Span {
  const cursor = new Cursor(text, options?.maxDepth ?? DEFAULT_MAX_DEPTH, false);
  const start = cursor.skipSpace(0);
  const end = cursor.skipValue(start, 0);
  expectEnd(cursor, text, end);
  return { start, end };
}

/**
 * The spans of the members of a nested object. The text must have been scanned before: strings are only measured here,
 * and no depth limit applies.
 *
 * @param start position of the object's `{`, such as a `valueStart`
 * @param maxMembers for objects of a client's; what engines list (a vocabulary's logprobs) has no limit of its own
 * @throws JsonError `not_object` when there is something else, `too_many_members`
 */
export function scanObjectAt(text: string, start: number, maxMembers = Infinity): JsonObject {
  if (text.charCodeAt(start) !== OPEN_BRACE) throw new JsonError("not_object", "Expected a JSON object", start);
  return readObject(new Cursor(text, Infinity, true), text, start, maxMembers);
}

/**
 * The spans of the elements of a nested array, in order. The text must have been scanned before, as for `scanObjectAt`.
 *
 * @param start position of the array's `[`
 * @param most no more than these are given, and what is behind them is not looked at
 * @throws JsonError `not_json` when there is something else
 */
export function scanArrayAt(text: string, start: number, most = Infinity): Span[] {
  const elements: Span[] = [];
  eachElement(text, start, (elementStart, elementEnd) => {
    elements.push({ start: elementStart, end: elementEnd });
    return elements.length < most;
  });
  return elements;
}

/** How many elements a nested array has, without keeping their spans: a client's list may have ten million. As `scanArrayAt`. */
export function countElementsAt(text: string, start: number): number {
  let count = 0;
  eachElement(text, start, () => {
    count++;
    return true;
  });
  return count;
}

/** Visits the elements of a nested array in order, until `visit` answers false. As `scanArrayAt`. */
export function eachElement(text: string, start: number, visit: (start: number, end: number) => boolean): void {
  if (text.charCodeAt(start) !== OPEN_BRACKET) throw new JsonError("not_json", "Expected a JSON array", start);
  const cursor = new Cursor(text, Infinity, true);
  let p = cursor.skipSpace(start + 1);
  if (text.charCodeAt(p) === CLOSE_BRACKET) return;
  for (;;) {
    const end = cursor.skipValue(p, 0);
    if (!visit(p, end)) return;
    p = cursor.skipSpace(end);
    const c = text.charCodeAt(p);
    if (c === CLOSE_BRACKET) return;
    if (c !== COMMA) throw new JsonError("not_json", "Expected ',' or ']'", p);
    p = cursor.skipSpace(p + 1);
  }
}

function readObject(cursor: Cursor, text: string, open: number, maxMembers: number): JsonObject {
  const members: Member[] = [];
  let p = cursor.skipSpace(open + 1);
  if (text.charCodeAt(p) === CLOSE_BRACE) return { text, open, close: p, members };
  for (;;) {
    const keyStart = p;
    if (members.length >= maxMembers) {
      throw new JsonError("too_many_members", `More than ${maxMembers} members`, keyStart);
    }
    const keyEnd = cursor.skipKey(keyStart);
    const plain = text.slice(keyStart + 1, keyEnd - 1);
    const key = plain.includes("\\") ? (JSON.parse(text.slice(keyStart, keyEnd)) as string) : plain;
    const valueStart = cursor.skipColon(keyEnd);
    const valueEnd = cursor.skipValue(valueStart, 1);
    members.push({ key, keyStart, valueStart, valueEnd });
    p = cursor.skipSpace(valueEnd);
    const c = text.charCodeAt(p);
    if (c === CLOSE_BRACE) return { text, open, close: p, members };
    if (c !== COMMA) throw new JsonError("not_json", "Expected ',' or '}'", p);
    p = cursor.skipSpace(p + 1);
  }
}

function expectEnd(cursor: Cursor, text: string, at: number): void {
  const end = cursor.skipSpace(at);
  if (end !== text.length) throw new JsonError("not_json", "Expected the end of the text", end);
}
