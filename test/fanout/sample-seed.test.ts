import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { sampleSeed } from "../../src/fanout/sample-seed.ts";

describe("the seed of a sample", () => {
  test.each<[string, number, string | undefined]>([
    ["7", 0, undefined],
    ["7", 2, "9"],
    ["-3", 5, "2"],
    ["9007199254740993", 2, "9007199254740995"],
    ["9223372036854775806", 1, "9223372036854775807"],
    ["9223372036854775807", 1, "-9223372036854775808"],
    ["9223372036854775807", 3, "-9223372036854775806"],
    ["-9223372036854775808", 1, "-9223372036854775807"],
    ['"41"', 1, "42"],
    ["41.0", 1, "42"],
    ["4e1", 2, "42"],
    ["9223372036854775808", 1, undefined],
    ["-9223372036854775809", 1, undefined],
    ["1.5", 1, undefined],
    ["null", 1, undefined],
    ['""', 1, undefined],
    ['"x"', 1, undefined],
    ["[1]", 1, undefined],
  ])("%s, sample %d: %s", (raw, sample, expected) => {
    expect(sampleSeed(raw, sample)).toBe(expected);
  });

  test("no seed stays no seed", () => {
    expect(sampleSeed(undefined, 3)).toBeUndefined();
  });

  test("is a 64-bit seed again, and the one that many further on, modulo 2^64", () => {
    fc.assert(
      fc.property(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.integer({ min: 1, max: 128 }), (seed, sample) => {
        const given = BigInt(sampleSeed(String(seed), sample) as string);
        expect(BigInt.asIntN(64, given)).toBe(given);
        expect(BigInt.asUintN(64, given - seed)).toBe(BigInt(sample));
      }),
    );
  });
});
