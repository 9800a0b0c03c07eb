import { describe, expect, test } from "bun:test";
import { choose } from "../../../src/workers/choose.ts";
import { acquire } from "../../../src/workers/lease.ts";
import { PrefixAware } from "../../../src/workers/policies/prefix-aware.ts";
import { makeInput, makeWorkers, seeded } from "../fixtures.ts";
import { conversations, makePool, replay } from "../simulation.ts";

const ports = { now: () => 0, random: seeded(2) };
const talk = (who: string, chars: number) => makeInput(`${who} says this and that. `.repeat(chars / 20));

describe("PrefixAware", () => {
  test("a conversation stays with the worker that has it", () => {
    const workers = makeWorkers(8);
    const policy = new PrefixAware(ports);
    const home = policy.choose(workers, talk("ann", 4000))!;
    policy.observe(home, talk("ann", 4000));
    acquire(home, 100, 0);
    for (let turn = 0; turn < 5; turn++) expect(policy.choose(workers, talk("ann", 4000 + 500 * turn))).toBe(home);
  });

  test("it goes elsewhere when waiting there costs more than computing it anew", () => {
    const workers = makeWorkers(2);
    const policy = new PrefixAware(ports);
    const input = talk("ann", 8000);
    policy.observe(workers[0]!, input);
    acquire(workers[0]!, 1000, 0);
    expect(policy.choose(workers, input)).toBe(workers[0]!);
    acquire(workers[0]!, 20_000, 0);
    expect(policy.choose(workers, input)).toBe(workers[1]!);
  });

  test("when requests pile up beyond both bounds the shortest queue wins, however little they are to compute", () => {
    const workers = makeWorkers(2);
    const policy = new PrefixAware(ports);
    const input = talk("ann", 80_000);
    policy.observe(workers[0]!, input);
    for (let n = 0; n < 16; n++) acquire(workers[0]!, 0, 0);
    expect(policy.choose(workers, input)).toBe(workers[0]!);
    acquire(workers[0]!, 0, 0);
    expect(policy.choose(workers, input)).toBe(workers[1]!);
    // 17 more than 50 are no imbalance.
    for (let n = 0; n < 50; n++) for (const worker of workers) acquire(worker, 0, 0);
    expect(policy.choose(workers, input)).toBe(workers[0]!);
  });

  test("prompts that share less than a third are new ones and spread", () => {
    const pool = makePool(8, "prefix-aware");
    const opening = "common opening ".repeat(40);
    const seen = new Set<string>();
    for (let n = 0; n < 8; n++) {
      const lease = choose(pool, "decode", makeInput(opening + `own text ${n} `.repeat(400)), { now: n })!;
      seen.add(lease.worker.name);
      lease.release();
    }
    expect(seen.size).toBe(8);
  });

  test("a worker that cannot be used is not chosen for what it has cached, and has it when it is back", () => {
    const pool = makePool(3, "prefix-aware");
    const home = choose(pool, "decode", talk("ann", 4000), { now: 0 })!;
    home.release();
    home.worker.draining = true;
    expect(choose(pool, "decode", talk("ann", 4000), { now: 0 })!.worker).not.toBe(home.worker);
    home.worker.draining = false;
    expect(pool.policy("decode").reuse!([home.worker], talk("ann", 4000))).toBeGreaterThan(800);
  });

  test("a worker that was forgotten has nothing", () => {
    const [a, b] = makeWorkers(2);
    const policy = new PrefixAware(ports);
    policy.observe(a!, talk("ann", 4000));
    policy.forget(a!);
    expect(policy.reuse([a!, b!], talk("ann", 4000))).toBe(0);
    policy.observe(b!, talk("bob", 4000));
    expect(policy.reuse([b!], talk("ann", 4000))).toBe(0);
    expect(policy.reuse([b!], talk("bob", 4000))).toBeGreaterThan(800);
  });

  test("a weight counts: the same queue is shorter on a stronger worker", () => {
    const [weak, strong] = [makeWorkers(1, { weight: 1 })[0]!, makeWorkers(1, { weight: 4 })[0]!];
    const policy = new PrefixAware(ports);
    acquire(weak, 3000, 0);
    acquire(strong, 3000, 0);
    expect(policy.choose([weak, strong], talk("new", 400))).toBe(strong);
  });

  test("keeps no prompt: after the choice the input is let go of, and the index has a fixed size", () => {
    const workers = makeWorkers(4);
    const policy = new PrefixAware(ports);
    let reads = 0;
    const prompt = () => {
      reads += 1;
      return "text ".repeat(400);
    };
    const input = { tokens: 500, session: () => "", prompt };
    policy.observe(policy.choose(workers, input)!, input);
    expect(reads).toBe(1);
    policy.choose(workers, input);
    expect(reads).toBe(2);
    const { bytes } = policy;
    for (let n = 0; n < 500; n++) policy.observe(workers[n % 4]!, talk(`someone ${n}`, 8000));
    expect(policy.bytes).toBe(bytes);
    expect(bytes).toBeLessThan(2 ** 20);
  });

  test("a fleet that grows gets a larger index", () => {
    const policy = new PrefixAware(ports);
    policy.choose(makeWorkers(2), talk("ann", 1000));
    const small = policy.bytes;
    policy.choose(makeWorkers(100), talk("ann", 1000));
    expect(policy.bytes).toBeGreaterThan(4 * small);
    const large = policy.bytes;
    policy.choose(makeWorkers(2), talk("ann", 1000));
    expect(policy.bytes).toBe(large);
  });

  test("on a multi-turn trace it finds far more cached than round-robin, near what can be had, without a lopsided fleet", () => {
    const trace = conversations({ count: 200, turns: 6, systems: 4, seed: 5 });
    const fleet = { workers: 8, cacheChars: 1_000_000 };
    const aware = replay("prefix-aware", trace, fleet);
    const blind = replay("round-robin", trace, fleet);
    const best = replay("round-robin", trace, { workers: 1, cacheChars: Infinity });
    expect(1 - aware.reuse).toBeLessThan((1 - blind.reuse) * 0.6);
    expect(aware.reuse).toBeGreaterThan(best.reuse - 0.06);
    expect(aware.requests).toBeLessThan(1.5);
    expect(aware.computed * (1 - aware.reuse)).toBeLessThan(blind.computed * (1 - blind.reuse) * 0.7);
  });
});
