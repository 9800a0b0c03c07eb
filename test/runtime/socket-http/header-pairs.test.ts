import { expect, test } from "bun:test";
import fc from "fast-check";
import { HeaderPairs } from "../../../src/runtime/socket-http/header-pairs.ts";

const name = fc.constantFrom(
  "content-type",
  "Content-Type",
  "CONTENT-LENGTH",
  "x-a",
  "X-A",
  "x-b",
  "retry-after",
  "date",
);
const pairs = fc.array(fc.tuple(name, fc.stringMatching(/^[!-~]{0,8}$/)), { maxLength: 8 });

test("headers from the parser read as the web's own do", () => {
  fc.assert(
    fc.property(pairs, (list) => {
      const ours = new HeaderPairs(list.flat());
      const theirs = new Headers(list);
      for (const [asked] of [...list, ["x-none"], ["content-length"]] as [string][]) {
        const lower = asked.toLowerCase();
        expect(ours.get(lower)).toBe(theirs.get(lower));
        expect(ours.has(lower)).toBe(theirs.has(lower));
      }
      const visited = new Map<string, string>();
      ours.forEach((value, key) => {
        visited.set(key, visited.has(key) ? `${visited.get(key)}, ${value}` : value);
      });
      expect(new Map([...visited].sort())).toEqual(new Map([...theirs].sort()));
    }),
  );
});
