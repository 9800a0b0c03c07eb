import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { scanObject, scanObjectAt } from "../../src/json/scan.ts";
import { type Edits, splice } from "../../src/json/splice.ts";
import { key, valueText, type WrittenMember, type WrittenObject, writtenObject } from "./arbitraries.ts";

const edited = (text: string, edits: Edits): string => splice(scanObject(text), edits);

const setOf = (entries: readonly (readonly [string, string])[]): Record<string, string> => Object.fromEntries(entries);

/** An object with edits that hit its own members as often as not. */
const editedObject = writtenObject.chain((written) => {
  const name =
    written.members.length === 0 ? key : fc.oneof(key, fc.constantFrom(...written.members.map((m) => m.key)));
  return fc.record({
    written: fc.constant(written),
    drop: fc.uniqueArray(name, { maxLength: 4 }),
    set: fc.uniqueArray(fc.tuple(name, valueText), { maxLength: 4, selector: ([k]) => k }),
    asSet: fc.boolean(),
  });
});

/** The same edits on a plain list of members. */
function editedMembers(written: WrittenObject, drop: string[], set: [string, string][]): WrittenMember[] {
  const wanted = new Map(set);
  const result: WrittenMember[] = [];
  const done = new Set<string>();
  for (const [i, member] of written.members.entries()) {
    if (drop.includes(member.key)) continue;
    const raw = wanted.get(member.key);
    if (raw === undefined) result.push(member);
    else if (!written.members.slice(i + 1).some((later) => later.key === member.key)) {
      result.push({ ...member, valueText: raw });
      done.add(member.key);
    }
  }
  const appended = Object.keys(setOf(set)).filter((k) => !done.has(k));
  return [...result, ...appended.map((k) => ({ key: k, keyText: JSON.stringify(k), valueText: wanted.get(k)! }))];
}

describe("splice", () => {
  test("leaves exactly the wanted members, in order, each with its own text", () => {
    fc.assert(
      fc.property(editedObject, ({ written, drop, set, asSet }) => {
        const out = edited(written.text, { drop: asSet ? new Set(drop) : drop, set: setOf(set) });
        const doc = scanObject(out);
        const expected = editedMembers(written, drop, set);
        expect(doc.members.map((m) => [m.key, out.slice(m.valueStart, m.valueEnd)])).toEqual(
          expected.map((m) => [m.key, m.valueText]),
        );
        for (const [i, m] of doc.members.entries()) expect(out.startsWith(expected[i]!.keyText, m.keyStart)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  test("parses as the same edits on the parsed object", () => {
    fc.assert(
      fc.property(editedObject, ({ written, drop, set }) => {
        // A null prototype: `__proto__` has to be a key like any other in the model too.
        const model = Object.assign(Object.create(null), JSON.parse(written.text)) as Record<string, unknown>;
        for (const k of drop) delete model[k];
        for (const [k, raw] of set) model[k] = JSON.parse(raw);
        const out = JSON.parse(edited(written.text, { drop, set: setOf(set) })) as object;
        expect(new Map(Object.entries(out))).toEqual(new Map(Object.entries(model)));
      }),
      { numRuns: 300 },
    );
  });

  test("without effect gives the same text", () => {
    fc.assert(
      fc.property(writtenObject, ({ text, members }) => {
        const own = setOf(members.map((m) => [m.key, m.valueText]));
        expect(edited(text, {})).toBe(text);
        expect(edited(text, { drop: ["absent"], set: {} })).toBe(text);
        expect(edited(text, { drop: new Set<string>(), set: { absent: undefined } })).toBe(text);
        if (new Set(members.map((m) => m.key)).size === members.length) expect(edited(text, { set: own })).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  test("removes nothing from the text but the dropped members, one comma each and whitespace", () => {
    fc.assert(
      fc.property(writtenObject, fc.nat(), ({ text, members }, seed) => {
        fc.pre(members.length > 0);
        const name = members[seed % members.length]!.key;
        const out = edited(text, { drop: [name] });
        const before = scanObject(text);
        const first = before.members.find((m) => m.key === name)!;
        const last = before.members.findLast((m) => m.key === name)!;
        const previous = before.members[before.members.indexOf(first) - 1];
        expect(out.startsWith(text.slice(0, previous?.valueEnd ?? first.keyStart))).toBe(true);
        expect(out.endsWith(text.slice(last.valueEnd).replace(previous === undefined ? /^\s*,\s*/ : "", ""))).toBe(
          true,
        );
      }),
      { numRuns: 300 },
    );
  });

  const cases: [promise: string, text: string, edits: Edits, out: string][] = [
    ["the first member goes with the comma behind it", '{ "a": 1, "b": 2 }', { drop: ["a"] }, '{ "b": 2 }'],
    ["the last member goes with the comma before it", '{\n  "a": 1,\n  "b": 2\n}', { drop: ["b"] }, '{\n  "a": 1\n}'],
    ["a middle member leaves its neighbours alone", '{"a":1 , "b":2 , "c":3}', { drop: ["b"] }, '{"a":1 , "c":3}'],
    ["every occurrence is dropped", '{"a":1,"b":2,"a":3,"\\u0061":4}', { drop: ["a"] }, '{"b":2}'],
    ["all members dropped leave an object", '{ "a": 1, "b": 2 }', { drop: ["a", "b"] }, "{  }"],
    ["all members dropped, one appended", '{"a":1,"b":2}', { drop: ["a", "b"], set: { c: "3" } }, '{"c":3}'],
    ["an empty object takes a member", " {} ", { set: { a: "1" } }, ' {"a":1} '],
    ["an empty object takes two", "{ }", { set: { a: "1", b: "2" } }, '{"a":1,"b":2 }'],
    [
      "a set member keeps its place and key",
      '{ "\\u0061" : 1 , "b":2}',
      { set: { a: "[9]" } },
      '{ "\\u0061" : [9] , "b":2}',
    ],
    ["earlier duplicates of a set member go", '{"a":1,"b":2,"a":3}', { set: { a: "9" } }, '{"b":2,"a":9}'],
    ["duplicates of other keys stay", '{"b":1,"a":1,"b":2}', { set: { a: "9" } }, '{"b":1,"a":9,"b":2}'],
    ["an absent member is appended", '{"a":1 }', { set: { b: "2" } }, '{"a":1,"b":2 }'],
    ["dropped and set is appended", '{"a":1,"b":2}', { drop: ["a"], set: { a: "9" } }, '{"b":2,"a":9}'],
    ["an appended key is escaped", "{}", { set: { 'q"\n': "1" } }, '{"q\\"\\n":1}'],
    ["a dollar sign in a value means nothing", '{"a":1}', { set: { a: '"$&$1"' } }, '{"a":"$&$1"}'],
    [
      "digits and escapes elsewhere stay",
      '{"seed":9007199254740993,"t":1.0e+00,"u":"\\u00e9\\/","x":1}',
      { drop: ["x"] },
      '{"seed":9007199254740993,"t":1.0e+00,"u":"\\u00e9\\/"}',
    ],
  ];
  for (const [promise, text, edits, out] of cases) {
    test(promise, () => {
      expect(edited(text, edits)).toBe(out);
    });
  }

  test("__proto__ is dropped, set and appended like any key", () => {
    const set = setOf([["__proto__", "9"]]);
    expect(edited('{"__proto__":{"a":1},"b":2}', { drop: ["__proto__"] })).toBe('{"b":2}');
    expect(edited('{"__proto__":{"a":1},"b":2}', { set })).toBe('{"__proto__":9,"b":2}');
    expect(edited("{}", { set })).toBe('{"__proto__":9}');
    expect(edited('{"__proto__":1,"toString":2}', { set: {} })).toBe('{"__proto__":1,"toString":2}');
  });

  test("edits a nested object within its whole text", () => {
    const text = '{"stream_options": {"include_usage":false}, "n":1}';
    expect(splice(scanObjectAt(text, 19), { set: { include_usage: "true" } })).toBe(
      '{"stream_options": {"include_usage":true}, "n":1}',
    );
  });
});
