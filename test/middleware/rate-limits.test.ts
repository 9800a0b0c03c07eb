import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Failure } from "../../src/errors/failure.ts";
import { RateLimits } from "../../src/middleware/rate-limits.ts";
import { ManualClock } from "../manual-clock.ts";

const team = { name: "team-a", key: "k", requestsPerMinute: 3, tokensPerMinute: 100 };

function refused(act: () => unknown): Failure {
  try {
    act();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error("was let through");
}

describe("rate limits of a key", () => {
  test("requests: the minute's allowance at once, then 429 with the time until the next", () => {
    const clock = new ManualClock();
    const limits = new RateLimits(clock);
    for (let i = 0; i < 3; i++) limits.take(team, 1);
    const failure = refused(() => limits.take(team, 1));
    expect([failure.code, failure.status, failure.retryAfterSeconds]).toEqual(["rate_limited", 429, 20]);
    expect(Object.fromEntries(failure.headers)).toMatchObject({
      "x-ratelimit-limit-requests": "3",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": "60s",
    });
    clock.time += 20_000;
    limits.take(team, 1);
  });

  test("tokens: what a prompt is estimated at; a refused request uses nothing up", () => {
    const clock = new ManualClock();
    const limits = new RateLimits(clock);
    limits.take(team, 90);
    expect(refused(() => limits.take(team, 40)).retryAfterSeconds).toBeCloseTo(18);
    expect(Object.fromEntries(limits.take(team, 10))["x-ratelimit-remaining-tokens"]).toBe("0");
  });

  test("a limit that a reload gives a key begins with its whole allowance, whatever was used before", () => {
    const limits = new RateLimits(new ManualClock());
    for (let i = 0; i < 1_000; i++) limits.take({ name: "t", key: "k", tokensPerMinute: 1e9 }, 1_000);
    limits.take({ name: "t", key: "k", requestsPerMinute: 1 }, 1_000_000);
    limits.take({ name: "t", key: "k", tokensPerMinute: 10 }, 10);
    expect(refused(() => limits.take({ name: "t", key: "k", tokensPerMinute: 10 }, 1)).code).toBe("rate_limited");
  });

  test("a prompt larger than the whole allowance passes when nothing is used, and is worked off", () => {
    const clock = new ManualClock();
    const limits = new RateLimits(clock);
    limits.take(team, 250);
    clock.time += 60_000;
    expect(refused(() => limits.take(team, 1)).code).toBe("rate_limited");
    clock.time += 40_000;
    limits.take(team, 1);
  });

  test("keys do not share, and a key without limits has none and shows none", () => {
    const limits = new RateLimits(new ManualClock());
    for (let i = 0; i < 3; i++) limits.take(team, 1);
    limits.take({ ...team, name: "team-b" }, 1);
    for (let i = 0; i < 100; i++) expect(limits.take({ name: "free", key: "f" }, 1e9)).toEqual([]);
    expect(limits.take(undefined, 1)).toEqual([]);
  });

  test("over any time no more passes than the allowance and what has come back since", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5_000), { maxLength: 200 }), (gaps) => {
        const clock = new ManualClock();
        const limits = new RateLimits(clock);
        let passed = 0;
        let time = 0;
        for (const gap of gaps) {
          clock.time += gap;
          time += gap;
          try {
            limits.take({ name: "k", key: "k", requestsPerMinute: 30 }, 0);
            passed++;
          } catch {}
        }
        return passed <= 30 + (time * 30) / 60_000 + 1e-6;
      }),
    );
  });
});
