import { expect, test } from "bun:test";
import fc from "fast-check";
import { SharedHeaders } from "../../src/legs/shared-headers.ts";

const shared = new SharedHeaders(["content-type", "application/json", "authorization", "Bearer client", "x-a", "1"]);

test("are lines for each leg, less those that a leg has of its own", () => {
  const all = "content-type: application/json\r\nauthorization: Bearer client\r\nx-a: 1\r\n";
  expect(shared.linesBeside({})).toBe(all);
  expect(shared.linesBeside({ authorization: "Bearer worker" })).toBe("content-type: application/json\r\nx-a: 1\r\n");
  expect(shared.linesBeside({ "x-request-id": "7" })).toBe(all);
});

test("say the same as lines and as a record, whatever a leg has of its own", () => {
  const name = fc.constantFrom("a", "authorization", "x-a", "constructor", "__proto__");
  const value = fc.constantFrom("1", "Bearer x", "");
  fc.assert(
    fc.property(fc.uniqueArray(name), value, fc.uniqueArray(name), value, (names, value, ownNames, ownValue) => {
      const headers = new SharedHeaders(names.flatMap((name) => [name, value]));
      const own: Record<string, string> = Object.fromEntries(ownNames.map((name) => [name, ownValue]));
      const lines = headers.linesBeside(own) + ownNames.map((name) => `${name}: ${ownValue}\r\n`).join("");
      const record = Object.entries(headers.with(own)).map(([name, value]) => `${name}: ${value}\r\n`);
      expect(
        lines
          .split(/(?<=\n)/)
          .filter(Boolean)
          .sort(),
      ).toEqual(record.sort());
    }),
  );
});
