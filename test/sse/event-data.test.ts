import { expect, test } from "bun:test";
import { holds } from "../../src/sse/event-data.ts";

test.each([
  [null, false],
  ["", false],
  [false, false],
  [{}, false],
  [[[], { a: null, b: [""] }], false],
  [undefined, false],
  [0, true],
  [true, true],
  [["", { a: [null, "x"] }], true],
])("%j holds something: %p", (value, expected) => {
  expect(holds(value)).toBe(expected);
});

test("however deep it is nested", () => {
  let deep: unknown = "x";
  for (let level = 0; level < 1_000_000; level++) deep = [deep];
  expect(holds(deep)).toBe(true);
});
