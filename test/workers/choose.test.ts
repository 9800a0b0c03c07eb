import { describe, expect, test } from "bun:test";
import { choose } from "../../src/workers/choose.ts";
import { fleetConfig, makeFleet, makeInput } from "./fixtures.ts";

const input = makeInput("a prompt");

function decodePool(more = {}) {
  const fleet = makeFleet(fleetConfig(more));
  return { fleet, pool: fleet.model("m")!.pools[0]!, d1: fleet.worker("d1")!, d2: fleet.worker("d2")! };
}

describe("choose", () => {
  test("takes only usable workers of the role, and says undefined when there are none", () => {
    const { pool, d1, d2 } = decodePool();
    d1.draining = true;
    for (let n = 0; n < 10; n++) expect(choose(pool, "decode", input, { now: 0 })?.worker).toBe(d2);
    d2.draining = true;
    expect(choose(pool, "decode", input, { now: 0 })).toBeUndefined();
    d1.draining = false;
    expect(choose(pool, "decode", input, { now: 0 })?.worker).toBe(d1);
    expect(choose(pool, "aggregated", input, { now: 0 })).toBeUndefined();
  });

  test("a busy worker is left alone for its Retry-After while another can take the request", () => {
    const { pool, d1, d2 } = decodePool();
    d1.busy(0, 2000);
    for (let n = 0; n < 10; n++) expect(choose(pool, "decode", input, { now: 1999 })?.worker).toBe(d2);
    expect(choose(pool, "decode", input, { now: 2000 })?.worker).toBe(d1);
  });

  test("busy workers are used all the same when nobody else is there: back-pressure never makes a fleet empty", () => {
    const { pool, d1, d2 } = decodePool();
    d1.busy(0, 2000);
    d2.busy(0, 2000);
    expect(choose(pool, "decode", input, { now: 1 })).toBeDefined();
    const alone = decodePool();
    alone.d1.busy(0, 2000);
    // The only willing one has failed this request already: the avoided one takes it.
    const lease = choose(alone.pool, "decode", input, { now: 1, exclude: new Set([alone.d2]) });
    expect(lease?.worker).toBe(alone.d1);
  });

  test("a worker that failed this request is not chosen for it again", () => {
    const { pool, d1, d2 } = decodePool();
    for (let n = 0; n < 6; n++)
      expect(choose(pool, "decode", input, { now: 0, exclude: new Set([d1]) })?.worker).toBe(d2);
    expect(choose(pool, "decode", input, { now: 0, exclude: new Set([d1, d2]) })).toBeUndefined();
  });

  test("busy answers leave the breaker alone, however many", () => {
    const { d1 } = decodePool();
    for (let n = 0; n < 100; n++) d1.busy(0, 10);
    expect(d1.breaker.state(0)).toBe("closed");
  });

  test("after the open time one request probes the worker; the others go elsewhere until it has answered", () => {
    const { pool, d1, d2 } = decodePool();
    for (let n = 0; n < 3; n++) d1.failed(0);
    for (let n = 0; n < 4; n++) expect(choose(pool, "decode", input, { now: 999 })?.worker).toBe(d2);
    const chosen = Array.from({ length: 50 }, () => choose(pool, "decode", input, { now: 1000 })!);
    expect(chosen.filter(({ worker }) => worker === d1)).toHaveLength(1);
    const probe = chosen.find(({ worker }) => worker === d1)!;
    d1.succeeded(1100);
    probe.release();
    expect(choose(pool, "decode", input, { now: 1100 })?.worker).toBe(d1);
  });

  test("a client error on the half-open probe frees the place, a failure then closes the door again", () => {
    const { pool, d1, d2 } = decodePool();
    d2.draining = true;
    for (let n = 0; n < 3; n++) d1.failed(0);
    expect(choose(pool, "decode", input, { now: 500 })).toBeUndefined();
    const neutral = choose(pool, "decode", input, { now: 1000 })!;
    expect(choose(pool, "decode", input, { now: 1000 })).toBeUndefined();
    neutral.release();
    const probe = choose(pool, "decode", input, { now: 1001 })!;
    d1.failed(1002);
    probe.release();
    expect(choose(pool, "decode", input, { now: 1003 })).toBeUndefined();
    expect(choose(pool, "decode", input, { now: 2002 })?.worker).toBe(d1);
  });

  test("the list of candidates is the same array until something changes", () => {
    const { pool, d1 } = decodePool();
    const set = pool.set("decode");
    const before = set.candidates(0);
    choose(pool, "decode", input, { now: 5 })?.release();
    expect(set.candidates(10)).toBe(before);
    d1.busy(10, 100);
    expect(set.candidates(11)).not.toBe(before);
    expect(set.candidates(110)).toHaveLength(2);
  });

  test("40 requests one after the other are spread evenly over equal workers: ties go round", () => {
    for (const policy of ["least-load", "round-robin"] as const) {
      const { pool, d1 } = decodePool({ policy: { prefill: policy, decode: policy } });
      let first = 0;
      for (let n = 0; n < 40; n++) {
        const lease = choose(pool, "decode", input, { now: n })!;
        if (lease.worker === d1) first += 1;
        lease.release();
      }
      expect(first).toBe(20);
    }
  });

  test("what a worker is expected to have cached is not counted as its queued work", () => {
    const fleet = makeFleet(fleetConfig({ policy: { prefill: "prefix-aware", decode: "least-load" } }));
    const pool = fleet.model("m")!.pools[0]!;
    const long = makeInput("conversation ".repeat(800));
    choose(pool, "prefill", long, { now: 0 })!.release();
    const lease = choose(pool, "prefill", long, { now: 0 })!;
    expect(lease.worker.load.requests).toBe(1);
    expect(lease.worker.load.tokens).toBeLessThan(long.tokens / 10);
  });
});
