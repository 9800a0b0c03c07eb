import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { choose } from "../../src/workers/choose.ts";
import { acquire, type Lease } from "../../src/workers/lease.ts";
import { fleetConfig, makeFleet, makeInput, makeWorker, workerConfig } from "./fixtures.ts";

describe("Lease", () => {
  test("counts at the moment of choice and lowers once, however often it is released", () => {
    const worker = makeWorker("a");
    const lease = acquire(worker, 100, 0);
    expect(worker.load).toEqual({ requests: 1, tokens: 100 });
    lease.release();
    lease.release();
    expect(worker.load).toEqual({ requests: 0, tokens: 0 });
  });

  test("estimates that are fractions leave nothing behind when the worker is idle", () => {
    const worker = makeWorker("a");
    const leases = [0.1, 0.2, 0.7, 1e15].map((tokens) => acquire(worker, tokens, 0));
    for (const lease of leases.reverse()) lease.release();
    expect(worker.load).toEqual({ requests: 0, tokens: 0 });
  });

  test("an outcome does not release, and a release reports no outcome", () => {
    const worker = makeWorker("a");
    const lease = acquire(worker, 1, 0);
    worker.failed(0);
    worker.succeeded(0);
    expect(worker.load.requests).toBe(1);
    lease.release();
    expect(worker.breaker.failures).toBe(0);
  });

  test("of a worker that left and came back lowers the counter that was raised", () => {
    const fleet = makeFleet();
    const pool = fleet.model("m")!.pools[0]!;
    const old = fleet.worker("d1")!;
    const lease = acquire(old, 10, 0);
    fleet.remove("d1");
    const back = fleet.add({ model: "m", pool: "default", role: "decode", worker: workerConfig("d1") });
    expect(back).not.toBe(old);
    const second = acquire(back, 20, 0);
    lease.release();
    expect(old.load.requests).toBe(0);
    expect(back.load).toEqual({ requests: 1, tokens: 20 });
    second.release();
    expect(pool.decode).toContain(back);
  });

  test("load is never negative and is zero at rest, whatever happens in between", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("choose" as const), chars: fc.integer({ min: 0, max: 5000 }) }),
      fc.record({ kind: fc.constant("release" as const), pick: fc.nat() }),
      fc.record({ kind: fc.constantFrom("fail" as const, "succeed" as const, "busy" as const), pick: fc.nat() }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 1500 }) }),
      fc.record({ kind: fc.constantFrom("leave" as const, "return" as const, "reload" as const, "drain" as const) }),
    );
    const policies = fc.constantFrom("least-load", "round-robin", "prefix-aware", "power-of-two", "random" as const);
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: "max" }), policies, (steps, policy) => {
        let now = 0;
        const config = fleetConfig({ policy: { prefill: policy, decode: policy } } as never);
        const fleet = makeFleet(config, { now: () => now });
        const pool = fleet.model("m")!.pools[0]!;
        const seen = new Set(fleet.workers());
        const held: Lease[] = [];
        const old: Lease[] = [];
        for (const one of steps) {
          if (one.kind === "wait") now += one.ms;
          else if (one.kind === "choose") {
            const lease = choose(pool, "decode", makeInput("x".repeat(one.chars)), { now });
            if (lease) held.push(lease);
          } else if (one.kind === "leave") fleet.remove("d1");
          else if (one.kind === "drain") fleet.drain("d2");
          else if (one.kind === "reload") fleet.reload(config, new Map());
          else if (one.kind === "return") {
            if (!fleet.worker("d1"))
              fleet.add({ model: "m", pool: "default", role: "decode", worker: workerConfig("d1") });
          } else if ("pick" in one && held.length > 0) {
            const lease = held[one.pick % held.length]!;
            if (one.kind === "fail") lease.worker.failed(now);
            if (one.kind === "succeed") lease.worker.succeeded(now);
            if (one.kind === "busy") lease.worker.busy(now, 1000);
            if (one.kind === "release") {
              held.splice(held.indexOf(lease), 1);
              lease.release();
              old.push(lease);
            }
            // Every exit path may release again.
            old[one.pick % (old.length || 1)]?.release();
          }
          for (const worker of fleet.workers()) seen.add(worker);
          let requests = 0;
          for (const worker of seen) {
            expect(worker.load.requests).toBeGreaterThanOrEqual(0);
            expect(worker.load.tokens).toBeGreaterThanOrEqual(0);
            requests += worker.load.requests;
          }
          expect(requests).toBe(held.length);
        }
        for (const lease of held) lease.release();
        for (const worker of seen) expect(worker.load).toEqual({ requests: 0, tokens: 0 });
      }),
      { numRuns: 200 },
    );
  });
});
