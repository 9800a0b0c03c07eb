import { describe, expect, test } from "bun:test";
import { acquire } from "../../../src/workers/lease.ts";
import { ConsistentHash } from "../../../src/workers/policies/consistent-hash.ts";
import { makeInput, makeWorkers } from "../fixtures.ts";

const sessions = Array.from({ length: 2000 }, (_, n) => makeInput("", `session-${n}`));

describe("ConsistentHash", () => {
  test("two routers that share nothing send a session to the same worker, whatever the order of their lists", () => {
    const here = makeWorkers(9);
    const there = makeWorkers(9).reverse();
    const a = new ConsistentHash();
    const b = new ConsistentHash();
    for (const session of sessions) expect(a.choose(here, session)!.name).toBe(b.choose(there, session)!.name);
  });

  test("when a worker leaves, its sessions move and no other's", () => {
    const workers = makeWorkers(10);
    const policy = new ConsistentHash();
    const before = sessions.map((session) => policy.choose(workers, session)!);
    const left = workers.filter((worker) => worker !== workers[4]);
    const after = sessions.map((session) => policy.choose(left, session)!);
    for (const [index, worker] of before.entries()) {
      if (worker === workers[4]) expect(after[index]).not.toBe(worker);
      else expect(after[index]).toBe(worker);
    }
  });

  test("a session leaves its worker when that is full, and comes back when it is not", () => {
    const workers = makeWorkers(4);
    const policy = new ConsistentHash();
    const session = sessions[0]!;
    const home = policy.choose(workers, session)!;
    const leases = Array.from({ length: 4 }, () => acquire(home, 1, 0));
    const second = policy.choose(workers, session)!;
    expect(second).not.toBe(home);
    expect(policy.choose(workers, session)).toBe(second);
    for (const worker of workers) for (let n = 0; n < 4; n++) if (worker !== home) acquire(worker, 1, 0);
    // All are equally full: nobody is above 1.25 times the average.
    expect(policy.choose(workers, session)).toBe(home);
    for (const lease of leases) lease.release();
    expect(policy.choose(workers, session)).toBe(home);
  });
});
