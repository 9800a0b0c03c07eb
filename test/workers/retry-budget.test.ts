import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { backoffMs, RetryBudget } from "../../src/workers/retry-budget.ts";
import { seeded } from "./fixtures.ts";

function takeAll(budget: RetryBudget, now: number, tries: number): number {
  let taken = 0;
  for (let n = 0; n < tries; n++) if (budget.take(now)) taken += 1;
  return taken;
}

describe("RetryBudget", () => {
  test("allows 10 retries in 10 s without any traffic to speak of", () => {
    const budget = new RetryBudget(0.2);
    budget.request(0);
    expect(takeAll(budget, 0, 50)).toBe(10);
    expect(budget.take(9000)).toBe(false);
    expect(budget.take(10_000)).toBe(true);
  });

  test("allows its share of the requests of the last 10 s", () => {
    const budget = new RetryBudget(0.2);
    for (let n = 0; n < 1000; n++) budget.request(n * 5);
    expect(takeAll(budget, 5000, 1000)).toBe(200);
    expect(takeAll(budget, 20_000, 1000)).toBe(10);
  });

  test("a budget of 0 is no limit", () => {
    expect(takeAll(new RetryBudget(0), 0, 5000)).toBe(5000);
  });

  test("never refuses while fewer than 10 were made in the last 10 s, at any times", () => {
    const gaps = fc.array(fc.integer({ min: 0, max: 4000 }), { maxLength: 80, size: "max" });
    fc.assert(
      fc.property(gaps, (waits) => {
        const budget = new RetryBudget(0.0001);
        const made: number[] = [];
        let now = 0;
        for (const wait of waits) {
          now += wait;
          const recent = made.filter((at) => at > now - 10_000).length;
          const allowed = budget.take(now);
          if (recent < 10) expect(allowed).toBe(true);
          if (allowed) made.push(now);
          // One slice may have gone a quarter of a second early, no more.
          expect(made.filter((at) => at > now - 9750).length).toBeLessThanOrEqual(10);
        }
      }),
    );
  });
});

describe("backoffMs", () => {
  const config = { backoffMs: 50, maxBackoffMs: 1000 };

  test("doubles up to the maximum, with half of it left to chance", () => {
    expect([1, 2, 3, 9].map((attempt) => backoffMs(attempt, config, () => 0))).toEqual([25, 50, 100, 500]);
    expect([1, 2, 3, 9].map((attempt) => backoffMs(attempt, config, () => 0.999999))).toEqual(
      [50, 100, 200, 1000].map((ms) => expect.closeTo(ms, 2)),
    );
  });

  test("spreads those that failed together", () => {
    const random = seeded(7);
    const waits = new Set(Array.from({ length: 100 }, () => Math.round(backoffMs(5, config, random))));
    expect(waits.size).toBeGreaterThan(70);
  });

  test("no back-off is no wait", () => {
    expect(backoffMs(3, { backoffMs: 0, maxBackoffMs: 1000 }, () => 0.5)).toBe(0);
  });
});
