import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { charsOf, PromptBlocks } from "../../../src/workers/policies/prompt-blocks.ts";
import { seeded } from "../fixtures.ts";

function hashes(text: string, seed = 1): string[] {
  const blocks = new PromptBlocks();
  blocks.read(text, seed);
  return Array.from({ length: blocks.count }, (_, n) => `${blocks.places[n]}:${blocks.checks[n]}`);
}

function common(a: string[], b: string[]): number {
  let count = 0;
  while (count < a.length && count < b.length && a[count] === b[count]) count += 1;
  return count;
}

const random = seeded(11);
const words = (length: number) => {
  let text = "";
  while (text.length < length) text += `${Math.floor(random() * 1e6).toString(36)} `;
  return text.slice(0, length);
};

describe("PromptBlocks", () => {
  test("a prompt that grows keeps the hashes it had", () => {
    const long = words(200_000);
    const all = hashes(long);
    for (const length of [0, 255, 256, 4095, 4096, 5119, 5120, 65_536, 131_072, 199_999]) {
      const part = hashes(long.slice(0, length));
      expect(part).toEqual(all.slice(0, part.length));
      expect(charsOf(part.length)).toBeLessThanOrEqual(length);
      if (length < 131_072) expect(charsOf(part.length + 1)).toBeGreaterThan(length);
    }
  });

  test("within the first 4 KB every character counts, and nothing after it is taken for equal", () => {
    const text = words(8192);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4095 }), (at) => {
        const other = `${text.slice(0, at)}\u00e9${text.slice(at + 1)}`;
        expect(common(hashes(text), hashes(other))).toBe(Math.floor(at / 256));
      }),
    );
  });

  test("further on, text put in, left out or replaced is seen though only some characters are read", () => {
    const text = words(60_000);
    fc.assert(
      fc.property(fc.integer({ min: 4096, max: 50_000 }), fc.integer({ min: 60, max: 900 }), (at, length) => {
        const part = words(length);
        for (const other of [
          text.slice(0, at) + part + text.slice(at),
          text.slice(0, at) + text.slice(at + length),
          text.slice(0, at) + part + text.slice(at + length),
        ]) {
          const equal = charsOf(common(hashes(text), hashes(other)));
          expect(equal).toBeGreaterThan(at - 1024);
          expect(equal).toBeLessThanOrEqual(at + 24);
        }
      }),
      { numRuns: 50 },
    );
  });

  test("different seeds give different hashes: a client cannot aim at another's", () => {
    const text = words(1024);
    expect(common(hashes(text, 1), hashes(text, 2))).toBe(0);
  });

  test("100,000 blocks of counting numbers have no two equal hashes", () => {
    const seen = new Set<string>();
    const blocks = new PromptBlocks();
    for (let n = 0; n < 100_000; n++) {
      blocks.read(`{"role":"user","content":"question ${n}"}`.padEnd(256), 7);
      seen.add(`${blocks.places[0]}:${blocks.checks[0]}`);
    }
    expect(seen.size).toBe(100_000);
  });

  test("emoji and any other text are only numbers", () => {
    expect(hashes("🦊".repeat(4000))).toHaveLength(19);
  });
});
