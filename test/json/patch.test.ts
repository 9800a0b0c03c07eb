import { expect, test } from "bun:test";
import fc from "fast-check";
import { Patch } from "../../src/json/patch.ts";
import { scanObject, scanObjectAt } from "../../src/json/scan.ts";

test("several changes in one pass: replaced in place, appended in order, the rest byte for byte", () => {
  const text = '{ "a":1.0 , "b":{} ,"c":{"d":2}}';
  const root = scanObject(text);
  const patch = new Patch(text);
  patch.set(scanObjectAt(text, root.members[1]!.valueStart), "x", "1");
  patch.set(scanObjectAt(text, root.members[1]!.valueStart), "y", "[2]");
  patch.set(scanObjectAt(text, root.members[2]!.valueStart), "e", "null");
  patch.set(root, "z", '"new"');
  patch.set(root, "a", "7");
  expect(patch.apply()).toBe('{ "a":7 , "b":{"x":1,"y":[2]} ,"c":{"d":2,"e":null},"z":"new"}');
});

test("no change gives the same string; of duplicate keys the deciding one is changed", () => {
  const text = '{"a":1,"a":2}';
  expect(new Patch(text).apply()).toBe(text);
  const patch = new Patch(text);
  patch.set(scanObject(text), "a", "3");
  expect(patch.apply()).toBe('{"a":1,"a":3}');
});

test("a patch says what assigning would", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: false }),
      fc.array(fc.tuple(fc.string(), fc.jsonValue()), { maxLength: 4 }),
      (object, changes) => {
        const text = JSON.stringify(object);
        const doc = scanObject(text);
        const patch = new Patch(text);
        const wanted = new Map(Object.entries(JSON.parse(text) as object));
        const once = new Map(changes);
        for (const [key, value] of once) {
          patch.set(doc, key, JSON.stringify(value));
          wanted.set(key, JSON.parse(JSON.stringify(value)));
        }
        expect(new Map(Object.entries(JSON.parse(patch.apply()) as object))).toEqual(wanted);
      },
    ),
    { numRuns: 300 },
  );
});
