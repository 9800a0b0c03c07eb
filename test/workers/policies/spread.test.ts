import { describe, expect, test } from "bun:test";
import { POLICY_NAMES } from "../../../src/config/policies.ts";
import { choose } from "../../../src/workers/choose.ts";
import { acquire, type Lease } from "../../../src/workers/lease.ts";
import { createPolicy } from "../../../src/workers/policies/create.ts";
import { makeInput, makeWorkers, seeded } from "../fixtures.ts";
import { makePool, spread } from "../simulation.ts";

const fleet = { workers: 64, requests: 12_800, concurrent: 256 };

describe("spread over 64 equal workers (200 each would be ideal)", () => {
  test("round-robin gives each the same number", () => {
    const { least, most } = spread("round-robin", fleet);
    expect([least, most]).toEqual([200, 200]);
  });

  test("random stays within four standard deviations of it", () => {
    const { least, most } = spread("random", fleet);
    expect(least).toBeGreaterThan(200 - 4 * 14.1);
    expect(most).toBeLessThan(200 + 4 * 14.1);
  });

  test("power-of-two has far less on one worker at once than random", () => {
    expect(spread("power-of-two", fleet).peak).toBeLessThan(spread("random", fleet).peak * 0.7);
  });

  test("least-load leaves nobody idle and has at most two above the average of four on anybody", () => {
    const { idle, peak } = spread("least-load", fleet);
    expect(idle).toBe(0);
    expect(peak).toBeLessThanOrEqual(6);
  });

  test("prefix-aware spreads prompts that nobody knows as evenly as least-load", () => {
    const { deviation, idle } = spread("prefix-aware", fleet);
    expect(deviation).toBeLessThan(0.1);
    expect(idle).toBe(0);
  });

  test("consistent-hash spreads many sessions, and bounds what one hot session puts on its worker", () => {
    expect(spread("consistent-hash", fleet).deviation).toBeLessThan(0.12);
    const hot = spread("consistent-hash", { ...fleet, session: (n) => (n % 2 === 0 ? "hot" : `s${n}`) });
    // 256 at once are 4 each on average; 1.25 times that is 5.
    expect(hot.peak).toBeLessThanOrEqual(5);
  });
});

describe("weights", () => {
  const weight = (index: number) => [1, 1, 2, 4][index]!;

  test.each(["round-robin", "random", "least-load", "consistent-hash"] as const)("%s gives by weight", (policy) => {
    const { counts } = spread(policy, { workers: 4, requests: 8000, concurrent: 400, weight });
    for (const [index, count] of counts.entries()) {
      expect(count / 1000).toBeGreaterThan(weight(index) * 0.85);
      expect(count / 1000).toBeLessThan(weight(index) * 1.15);
    }
  });

  test("round-robin spreads a heavy worker's turns instead of giving them in a row", () => {
    const pool = makePool(2, "round-robin", (index) => (index === 0 ? 3 : 1));
    const names = Array.from({ length: 8 }, () => choose(pool, "decode", makeInput(), { now: 0 })!.worker.name);
    expect(names.filter((name) => name === "engine-0")).toHaveLength(6);
    expect(names.join()).not.toContain("engine-0,engine-0,engine-0,engine-0");
  });

  test("a weight of a thousandth still has turns, and one of a million does not make an endless round", () => {
    const pool = makePool(2, "round-robin", (index) => (index === 0 ? 1_000_000 : 0.001));
    const names = Array.from({ length: 5000 }, () => choose(pool, "decode", makeInput(), { now: 0 })!.worker.name);
    expect(new Set(names).size).toBe(2);
  });
});

describe("any policy", () => {
  test.each([...POLICY_NAMES])("%s: nobody for nobody, the only one for one, never anybody but a candidate", (name) => {
    const policy = createPolicy(name, { now: () => 0, random: seeded(4) });
    const workers = makeWorkers(5);
    expect(policy.choose([], makeInput("x"))).toBeUndefined();
    expect(policy.choose([workers[3]!], makeInput("x"))).toBe(workers[3]!);
    const held: Lease[] = [];
    for (let n = 0; n < 200; n++) {
      // The list changes all the time, as it does when workers flap.
      const candidates = workers.filter((_, index) => (n >> (index % 3)) % 2 === 0 || index === n % 5);
      const input = makeInput(`${n % 7} `.repeat(400));
      const worker = policy.choose(candidates, input)!;
      expect(candidates).toContain(worker);
      policy.observe?.(worker, input);
      held.push(acquire(worker, 1, 0));
      if (n % 3 === 0) held.shift()!.release();
    }
  });

  test.each(["least-load", "power-of-two"] as const)("%s looks at prompt tokens, not at requests alone", (name) => {
    const policy = createPolicy(name, { now: () => 0, random: seeded(4) });
    const [a, b] = makeWorkers(2) as [ReturnType<typeof makeWorkers>[0], ReturnType<typeof makeWorkers>[0]];
    acquire(a!, 100_000, 0);
    acquire(b!, 10, 0);
    acquire(b!, 10, 0);
    for (let n = 0; n < 10; n++) expect(policy.choose([a!, b!], makeInput("short"))).toBe(b!);
  });

  test("least-load over 1,000 workers, looked at in windows, still reaches everybody", () => {
    const { least, peak } = spread("least-load", { workers: 1000, requests: 10_000, concurrent: 3000 });
    expect(least).toBeGreaterThan(0);
    expect(peak).toBeLessThanOrEqual(6);
  });
});

test.each(POLICY_NAMES)("%s finds somebody however small the weights are", (policy) => {
  const workers = makeWorkers(2);
  for (const worker of workers) {
    worker.weight = 1e-310;
    worker.load.requests = 1;
  }
  const made = createPolicy(policy, { random: seeded(1), now: () => 0 });
  expect(made.choose(workers, makeInput())).toBeDefined();
});
