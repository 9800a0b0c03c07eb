import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  findMember,
  hasMember,
  rawValue,
  readBoolean,
  readNumber,
  readScalar,
  readString,
} from "../../src/json/member.ts";
import { scanObject } from "../../src/json/scan.ts";
import { key, writtenObject } from "./arbitraries.ts";

describe("reading one member", () => {
  test("gives what JSON.parse gives for that key, and the text it was sent as", () => {
    fc.assert(
      fc.property(writtenObject, fc.array(key), ({ text, members }, others) => {
        const doc = scanObject(text);
        const parsed = JSON.parse(text) as Record<string, unknown>;
        for (const name of [...members.map((m) => m.key), ...others]) {
          const has = Object.hasOwn(parsed, name);
          const value = has ? parsed[name] : undefined;
          expect(hasMember(doc, name)).toBe(has);
          expect(has ? JSON.parse(rawValue(doc, name)!) : undefined).toEqual(value);
          expect(readScalar(doc, name)).toEqual(typeof value === "object" && value !== null ? undefined : value);
          expect(rawValue(doc, name)).toBe(members.findLast((m) => m.key === name)?.valueText);
          expect(readString(doc, name)).toBe(typeof value === "string" ? value : undefined);
          expect(readNumber(doc, name)).toBe(typeof value === "number" ? value : undefined);
          expect(readBoolean(doc, name)).toBe(typeof value === "boolean" ? value : undefined);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("of duplicates the last one decides, however it is escaped", () => {
    const doc = scanObject('{"model":"a","\\u006dodel":"b"}');
    expect(readString(doc, "model")).toBe("b");
    expect(findMember(doc, "model")).toBe(doc.members[1]!);
  });

  test("an inherited property is no member", () => {
    const doc = scanObject("{}");
    for (const name of ["__proto__", "constructor", "toString"]) expect(hasMember(doc, name)).toBe(false);
  });

  test("a number beyond 2^53 keeps its digits as raw text", () => {
    expect(rawValue(scanObject('{"seed": 9007199254740993000001 }'), "seed")).toBe("9007199254740993000001");
  });
});
