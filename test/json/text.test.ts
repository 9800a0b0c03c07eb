import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { scanObject } from "../../src/json/scan.ts";
import { jsonString, replaceSpan, replaceValue, setAt } from "../../src/json/text.ts";
import { valueText } from "./arbitraries.ts";

type Path = (string | number)[];

/** Every place in a value, as a path to it. */
function pathsOf(value: unknown, path: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [path];
  const entries: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [path, ...entries.flatMap(([step, inner]) => pathsOf(inner, [...path, step]))];
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, step) => Object.getOwnPropertyDescriptor(inner, step)?.value, value);
}

describe("setAt", () => {
  test("changes the value at the path and no other byte", () => {
    fc.assert(
      fc.property(valueText, fc.nat(), (text, seed) => {
        const paths = pathsOf(JSON.parse(text));
        const path = paths[seed % paths.length]!;
        // A mark that no generated text holds, so that what is around it can be compared.
        const out = setAt(text, path, '"<the mark>"');
        expect(valueAt(JSON.parse(out), path)).toBe("<the mark>");
        const [before, after] = out.split('"<the mark>"') as [string, string];
        expect(text.startsWith(before)).toBe(true);
        expect(text.endsWith(after)).toBe(true);
        // What was replaced is one whole value: putting it back gives the text again.
        const replaced = text.slice(before.length, text.length - after.length);
        expect(JSON.parse(replaced)).toEqual(valueAt(JSON.parse(text), path));
        expect(setAt(out, path, replaced)).toBe(text);
      }),
      { numRuns: 400 },
    );
  });

  const CACHED = ["usage", "prompt_tokens_details", "cached_tokens"];
  const cases: [promise: string, text: string, path: Path, raw: string, out: string][] = [
    ["a top-level member", '{ "model" : "a", "n":1}', ["model"], '"b"', '{ "model" : "b", "n":1}'],
    ["an index in an array", '{"choices":[{"index":0 }]}', ["choices", 0, "index"], "3", '{"choices":[{"index":3 }]}'],
    ["the second element", "[1, 2 ,3]", [1], "9", "[1, 9 ,3]"],
    ["a missing last member is added", '{"id":"x"}', ["model"], '"b"', '{"id":"x","model":"b"}'],
    [
      "a missing object is added",
      '{"usage":{"n":1}}',
      CACHED,
      "5",
      '{"usage":{"n":1,"prompt_tokens_details":{"cached_tokens":5}}}',
    ],
    [
      "null stands for a missing object",
      '{"usage":{"prompt_tokens_details": null}}',
      CACHED,
      "5",
      '{"usage":{"prompt_tokens_details": {"cached_tokens":5}}}',
    ],
    [
      "a present object takes the member",
      '{"usage":{"prompt_tokens_details":{"audio":1}}}',
      CACHED,
      "5",
      '{"usage":{"prompt_tokens_details":{"audio":1,"cached_tokens":5}}}',
    ],
    ["the last of duplicates", '{"a":{"b":1},"a":{"b":2}}', ["a", "b"], "9", '{"a":{"b":1},"a":{"b":9}}'],
    ["an escaped key", '{"\\u0061":{"b":2}}', ["a", "b"], "9", '{"\\u0061":{"b":9}}'],
    ["a __proto__ member that is missing", "{}", ["__proto__"], "9", '{"__proto__":9}'],
    ["the whole value", ' {"a":1} ', [], "2", " 2 "],
    ["null as the last value", '{"a":null}', ["a"], "1", '{"a":1}'],
  ];
  for (const [promise, text, path, raw, out] of cases) {
    test(`sets ${promise}`, () => {
      expect(setAt(text, path, raw)).toBe(out);
    });
  }

  const untouched: [why: string, text: string, path: Path][] = [
    ["usage is missing", '{"id":1}', CACHED],
    ["usage is null, as before the last event of a stream", '{"usage":null}', CACHED],
    ["the path leads through a string", '{"usage":"x"}', CACHED],
    ["the path leads through an array by a key", '{"usage":[]}', ["usage", "x"]],
    ["the path leads through an object by an index", '{"choices":{}}', ["choices", 0]],
    ["the element is missing", '{"choices":[]}', ["choices", 0, "index"]],
    ["an array would have to be made up", "{}", ["choices", 0]],
    ["an index is negative or no integer", "[1]", [-1]],
    ["the text is cut", '{"model":"a"', ["model"]],
    ["the text is no JSON", "[DONE]", ["model"]],
    ["the text is empty", "", []],
    ["the text nests beyond the depth limit", "[".repeat(600) + "]".repeat(600), []],
  ];
  for (const [why, text, path] of untouched) {
    test(`leaves the text alone when ${why}`, () => {
      expect(setAt(text, path, "1")).toBe(text);
    });
  }
});

describe("small parts", () => {
  test("jsonString writes a literal that parses back, for any string", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (value) => {
        expect(JSON.parse(jsonString(value))).toBe(value);
      }),
    );
    expect(jsonString("\ud800")).toBe('"\\ud800"');
  });

  test("replaceValue edits the last occurrence and keeps the earlier ones, or appends", () => {
    expect(replaceValue(scanObject('{"a":1,"a":2}'), "a", "9")).toBe('{"a":1,"a":9}');
    expect(replaceValue(scanObject('{"a":1}'), "b", "9")).toBe('{"a":1,"b":9}');
    expect(replaceValue(scanObject("{}"), "__proto__", "9")).toBe('{"__proto__":9}');
  });

  test("replaceSpan takes the new text literally", () => {
    expect(replaceSpan("abc", { start: 1, end: 2 }, "$&")).toBe("a$&c");
  });
});
