import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Candidate, orderPools, shares } from "../../src/regions/spread.ts";
import { hashText } from "../../src/workers/worker.ts";

function pool(name: string, costMs: number, capacity = 1): Candidate<string> {
  return { pool: name, hash: hashText(name), costMs, capacity };
}

const sessions = Array.from({ length: 20_000 }, (_, n) => hashText(`session-${n}`));

function firsts(candidates: Candidate<string>[]): string[] {
  return sessions.map((session) => orderPools(candidates, session)[0]!);
}

function shareOf(name: string, chosen: string[]): number {
  return chosen.filter((one) => one === name).length / chosen.length;
}

describe("spreading sessions over pools", () => {
  test("equal pools get equal shares, larger ones more, and what `shares` foretells comes true", () => {
    const candidates = [pool("a", 20), pool("b", 20, 2), pool("c", 28), pool("d", 90)];
    const chosen = firsts(candidates);
    for (const [index, expected] of shares(candidates).entries()) {
      expect(shareOf(candidates[index]!.pool, chosen)).toBeCloseTo(expected, 1.9);
    }
    expect(shareOf("b", chosen) / shareOf("a", chosen)).toBeWithin(1.85, 2.15);
    expect(shareOf("d", chosen)).toBeLessThan(0.005);
  });

  test("share falls softly with cost: no millisecond moves more than a few sessions in a hundred", () => {
    let before = 0.5;
    for (let ms = 1; ms < 100; ms++) {
      const [near] = shares([pool("a", 20), pool("b", 20 + ms)]);
      expect(near! - before).toBeWithin(-1e-9, 0.03);
      before = near!;
    }
    expect(before).toBeGreaterThan(0.999);
  });

  test("a pool that gets dearer loses sessions to others, and nobody else's session moves", () => {
    const before = firsts([pool("a", 20), pool("b", 24), pool("c", 30)]);
    const after = firsts([pool("a", 20), pool("b", 32), pool("c", 30)]);
    for (const [index, was] of before.entries()) if (after[index] !== was) expect(was).toBe("b");
    expect(after).not.toEqual(before);
  });

  test("all pools are in the order, each once, whatever their costs; a second away comes before two seconds away", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -5_000, max: 60_000, noNaN: true }), { maxLength: 8 }),
        fc.nat(),
        (costs, s) => {
          const candidates = costs.map((cost, index) => pool(`p${index}`, cost, index % 3));
          const order = orderPools(candidates, s);
          expect([...order].sort()).toEqual(candidates.map((one) => one.pool).sort());
        },
      ),
    );
    for (const session of sessions.slice(0, 200)) {
      expect(orderPools([pool("far", 2_000), pool("near", 1), pool("mid", 1_000)], session)).toEqual([
        "near",
        "mid",
        "far",
      ]);
    }
  });
});
