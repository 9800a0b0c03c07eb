/**
 * JSON with numbers kept as the digits that were sent: rooms, seeds and hand-off ids go up to 2^63, and a strict engine
 * must notice when a router has rounded one. `JSON.parse` would hide exactly that.
 */

/** JSON text that is printed as it stands: a number that was read, or a value that must not be touched. */
export class Raw {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type Json = null | boolean | string | number | Raw | Json[] | JsonRecord;
/** Objects have no prototype, so a member called `__proto__` is a member like any other. */
export interface JsonRecord {
  [key: string]: Json | undefined;
}

const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const spacePattern = /[ \t\n\r]*/y;

/** Parses one JSON document. Throws SyntaxError. Of duplicate members the last one decides, as in the engines. */
export function parseJson(text: string): Json {
  let at = 0;

  function fail(): never {
    throw new SyntaxError(`Unexpected ${at < text.length ? `"${text[at]}"` : "end"} at position ${at}`);
  }
  function space(): void {
    spacePattern.lastIndex = at;
    spacePattern.exec(text);
    at = spacePattern.lastIndex;
  }
  // Native search for the closing quote: a regular expression overflows its stack on megabytes of escapes.
  function readString(): string {
    let end = at;
    for (;;) {
      end = text.indexOf('"', end + 1);
      if (end < 0) fail();
      let slashes = 0;
      while (text[end - 1 - slashes] === "\\") slashes += 1;
      if (slashes % 2 === 0) break;
    }
    const slice = text.slice(at, end + 1);
    at = end + 1;
    return JSON.parse(slice) as string;
  }
  function readWord<T extends Json>(word: string, value: T): T {
    if (!text.startsWith(word, at)) fail();
    at += word.length;
    return value;
  }
  function readArray(depth: number): Json[] {
    const out: Json[] = [];
    at += 1;
    space();
    if (text[at] === "]") {
      at += 1;
      return out;
    }
    for (;;) {
      out.push(readValue(depth));
      if (text[at] === ",") at += 1;
      else if (text[at] === "]") {
        at += 1;
        return out;
      } else fail();
    }
  }
  function readObject(depth: number): JsonRecord {
    const out = Object.create(null) as JsonRecord;
    at += 1;
    space();
    if (text[at] === "}") {
      at += 1;
      return out;
    }
    for (;;) {
      space();
      if (text[at] !== '"') fail();
      const key = readString();
      space();
      if (text[at] !== ":") fail();
      at += 1;
      out[key] = readValue(depth);
      if (text[at] === ",") at += 1;
      else if (text[at] === "}") {
        at += 1;
        return out;
      } else fail();
    }
  }
  function readValue(depth: number): Json {
    if (depth > 512) throw new SyntaxError("Nesting is deeper than 512");
    space();
    const value = readBare(depth + 1);
    space();
    return value;
  }
  function readBare(depth: number): Json {
    switch (text[at]) {
      case '"':
        return readString();
      case "{":
        return readObject(depth);
      case "[":
        return readArray(depth);
      case "t":
        return readWord("true", true);
      case "f":
        return readWord("false", false);
      case "n":
        return readWord("null", null);
      default: {
        numberPattern.lastIndex = at;
        const match = numberPattern.exec(text);
        if (match === null) fail();
        at = numberPattern.lastIndex;
        return new Raw(match[0]);
      }
    }
  }

  const value = readValue(0);
  if (at !== text.length) fail();
  return value;
}

/** Prints a value; `Raw` goes out as its text, absent members are left out. */
export function printJson(value: Json): string {
  if (value instanceof Raw) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(printJson).join(",")}]`;
  const members: string[] = [];
  for (const key of Object.keys(value)) {
    const member = value[key];
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${printJson(member)}`);
  }
  return `{${members.join(",")}}`;
}

/** Equal as JSON values: member order and white space do not count, the digits of a number do. */
export function sameJson(left: Json, right: Json): boolean {
  return canonical(left) === canonical(right);
}

/** One text per value, whatever the member order was. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isRecord(value)) return printJson(value);
  const keys = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key] as Json)}`).join(",")}}`;
}

export function isRecord(value: Json | undefined): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Raw);
}

/** A number's value for counting and limits; never for ids. */
export function numberOf(value: Json | undefined): number | undefined {
  if (typeof value === "number") return value;
  return value instanceof Raw ? Number(value.text) : undefined;
}

/** An integer as its digits, or undefined when it is no integer. */
export function integerText(value: Json | undefined): string | undefined {
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  return value instanceof Raw && /^-?\d+$/.test(value.text) ? value.text : undefined;
}
