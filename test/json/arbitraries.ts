import fc from "fast-check";

/** How a value was written, so that a test knows the exact text of each part. */
export interface WrittenMember {
  key: string;
  keyText: string;
  valueText: string;
}

export interface WrittenObject {
  text: string;
  members: WrittenMember[];
}

const KEYS = ["model", "max_tokens", "a", "", "__proto__", "constructor", "toString", "日本", 'q"uote', "back\\slash"];

export const whitespace = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });

/** Few keys, so that duplicates are common. */
export const key = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...KEYS) },
  fc.string({ unit: "binary", maxLength: 40 }),
);

/** A string literal, each character plain where JSON allows it, or escaped in one of the ways JSON has. */
export function literalOf(value: string): fc.Arbitrary<string> {
  return fc
    .array(fc.nat(5), { minLength: value.length, maxLength: value.length })
    .map((ways) => `"${ways.map((way, i) => characterAs(value.charCodeAt(i), way)).join("")}"`);
}

function characterAs(unit: number, way: number): string {
  const character = String.fromCharCode(unit);
  if (way === 0) return `\\u${unit.toString(16).padStart(4, "0")}`;
  if (way === 1) return `\\u${unit.toString(16).padStart(4, "0").toUpperCase()}`;
  if (unit === 0x2f && way === 2) return "\\/";
  return unit < 0x20 || unit === 0x22 || unit === 0x5c ? JSON.stringify(character).slice(1, -1) : character;
}

export const stringText = fc
  .oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.string({ unit: fc.constantFrom("x", "\\", '"', "\n", "é", "日"), maxLength: 90 }),
  )
  .chain(literalOf);

const digits = fc.string({ unit: fc.constantFrom(..."0123456789"), minLength: 1, maxLength: 30 });

export const numberText = fc
  .tuple(
    fc.constantFrom("", "-"),
    digits.map((text) => text.replace(/^0+(?=.)/, "")),
    fc.option(digits, { nil: undefined }),
    fc.option(fc.tuple(fc.constantFrom("e", "E", "e+", "E-"), digits), { nil: undefined }),
  )
  .map(([sign, whole, fraction, exponent]) => {
    return `${sign}${whole}${fraction === undefined ? "" : `.${fraction}`}${exponent === undefined ? "" : exponent.join("")}`;
  });

/** The text of any JSON value, with whitespace wherever it may be. */
export const valueText: fc.Arbitrary<string> = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom("true", "false", "null"),
    numberText,
    stringText,
    tie("array"),
    tie("object"),
  ),
  array: fc
    .array(fc.tuple(whitespace, tie("value"), whitespace), { maxLength: 4 })
    .chain((parts) =>
      whitespace.map((inner) => `[${parts.length === 0 ? inner : parts.map((p) => p.join("")).join(",")}]`),
    ),
  object: fc
    .array(fc.tuple(whitespace, key.chain(literalOf), whitespace, whitespace, tie("value"), whitespace), {
      maxLength: 4,
    })
    .chain((parts) => whitespace.map((inner) => objectText(parts, inner))),
})).value;

type Part = [before: string, keyText: string, colon: string, value: string, valueText: string, after: string];

function objectText(parts: Part[], inner: string): string {
  if (parts.length === 0) return `{${inner}}`;
  return `{${parts.map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`).join(",")}}`;
}

/** An object whose members' texts are known, to compare spans with. */
export const writtenObject: fc.Arbitrary<WrittenObject> = fc
  .tuple(
    whitespace,
    fc.array(
      fc.tuple(
        whitespace,
        key.chain((decoded) => literalOf(decoded).map((keyText) => ({ key: decoded, keyText }))),
        whitespace,
        whitespace,
        valueText,
        whitespace,
      ),
      { maxLength: 8 },
    ),
    whitespace,
    whitespace,
  )
  .map(([before, parts, inner, after]) => ({
    text: `${before}${objectText(
      parts.map(([a, k, b, c, v, d]) => [a, k.keyText, b, c, v, d]),
      inner,
    )}${after}`,
    members: parts.map(([, k, , , value]) => ({ key: k.key, keyText: k.keyText, valueText: value })),
  }));

/** Valid objects with a character or two removed, doubled, replaced or inserted: most are no JSON any more, some are. */
export const mutatedText = fc
  .tuple(
    writtenObject,
    fc.array(
      fc.tuple(fc.nat(), fc.nat(3), fc.constantFrom(...'{}[]",:\\u0-+.eE1 \n\t\u0000\u001f\u007f\ufefftrfn/xé日')),
      {
        minLength: 1,
        maxLength: 2,
      },
    ),
  )
  .map(([{ text }, edits]) => edits.reduce(mutate, text));

function mutate(text: string, [seed, way, character]: [number, number, string]): string {
  const at = seed % (text.length + 1);
  if (way === 0) return text.slice(0, at) + text.slice(at + 1);
  if (way === 1) return text.slice(0, at) + text.slice(Math.max(0, at - 1));
  if (way === 2) return text.slice(0, at) + character + text.slice(at + 1);
  return text.slice(0, at) + character + text.slice(at);
}
