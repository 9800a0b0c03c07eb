import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { acquire, type Lease } from "../../src/workers/lease.ts";
import { WorkerSet } from "../../src/workers/worker-set.ts";
import { breakerConfig, healthConfig, makeWorker, makeWorkers } from "./fixtures.ts";

function badProbe(worker: ReturnType<typeof makeWorker>, now: number, kind: "error" | "timeout" = "error"): void {
  worker.health.begin(now);
  worker.health.report({ kind }, now);
}

describe("Worker", () => {
  test("a Retry-After is believed up to a minute, none is a second, and a shorter one does not shorten it", () => {
    const worker = makeWorker("a");
    worker.busy(0);
    expect(worker.avoidUntil).toBe(1000);
    worker.busy(0, 5000);
    worker.busy(0, 10);
    expect(worker.avoidUntil).toBe(5000);
    worker.busy(0, 86_400_000);
    expect(worker.avoidUntil).toBe(60_000);
    const other = makeWorker("b");
    other.busy(500, -3);
    expect(other.avoidUntil).toBe(500);
  });

  test("a live failure asks for a probe before its turn", () => {
    const worker = makeWorker("a");
    worker.health.begin(0);
    worker.health.report({ kind: "answer", status: 200 }, 10);
    expect(worker.health.due(2000)).toBe(false);
    worker.failed(2000);
    expect(worker.health.due(2000)).toBe(true);
  });

  test.each(["succeeded", "busy", "answered"] as const)("%s is a sign of life that excuses a slow probe", (sign) => {
    const worker = makeWorker("a", { health: { ...healthConfig, failures: 1 } });
    worker[sign](100_000);
    badProbe(worker, 101_000, "timeout");
    expect(worker.usable(101_000)).toBe(true);
    badProbe(worker, 110_000, "timeout");
    expect(worker.usable(110_000)).toBe(false);
  });

  test("its hash is the same for the same address, whatever its name", () => {
    const url = "http://engine:8000";
    expect(makeWorker("a", { url }).hash).toBe(makeWorker("b", { url }).hash);
    expect(makeWorker("a").hash).not.toBe(makeWorker("b").hash);
  });
});

describe("WorkerSet", () => {
  test("a worker that probes keep calling down stays out beyond the time its first verdict would have lasted", () => {
    const worker = makeWorker("a", { health: { ...healthConfig, failures: 1 } });
    const set = new WorkerSet();
    set.add(worker);
    badProbe(worker, 0);
    expect(set.candidates(0)).toEqual([]);
    badProbe(worker, 20_000);
    expect(set.candidates(30_000)).toEqual([]);
    expect(set.candidates(49_999)).toEqual([]);
    expect(set.candidates(50_000)).toEqual([worker]);
  });

  test("one that fails again after its verdict went stale is out again at once", () => {
    const worker = makeWorker("a", { health: { ...healthConfig, failures: 1 } });
    const set = new WorkerSet();
    set.add(worker);
    badProbe(worker, 0);
    expect(set.candidates(30_000)).toEqual([worker]);
    badProbe(worker, 31_000);
    expect(set.candidates(31_000)).toEqual([]);
  });

  test("changes of a worker that was removed are none of its business", () => {
    const [a, b] = [makeWorker("a"), makeWorker("b")];
    const set = new WorkerSet();
    set.add(a);
    set.add(b);
    expect(set.remove(a)).toBe(true);
    expect(set.remove(a)).toBe(false);
    const before = set.candidates(0);
    a.draining = true;
    expect(set.candidates(1)).toBe(before);
    expect(before).toEqual([b]);
  });

  test("its kept list is what its workers say themselves, whatever happens to them and however much time passes", () => {
    const what = fc.constantFrom("failed", "failed", "failed", "good", "busy", "warned", "up", "down", "lease", "end");
    const event = fc.tuple(fc.nat(1), what);
    fc.assert(
      fc.property(
        fc.array(fc.oneof(event, event, fc.nat(2_000)), { minLength: 60, maxLength: 120, size: "max" }),
        (steps) => {
          const set = new WorkerSet();
          const workers = makeWorkers(2);
          for (const worker of workers) set.add(worker);
          const leases: Lease[] = [];
          let now = 1_000;
          for (const step of steps) {
            if (typeof step === "number") now += step;
            else {
              const worker = workers[step[0]]!;
              if (step[1] === "failed") worker.failed(now);
              else if (step[1] === "good") worker.succeeded(now);
              else if (step[1] === "busy") worker.busy(now, 3_000);
              else if (step[1] === "warned") worker.warned(now, now + 3_000);
              else if (step[1] === "up") worker.health.report({ kind: "answer", status: 200 }, now);
              else if (step[1] === "down") worker.health.report({ kind: "error" }, now);
              else if (step[1] === "lease") leases.push(acquire(worker, 1, now));
              else leases.pop()?.release();
            }
            const usable = workers.filter((worker) => worker.usable(now));
            const willing = usable.filter((worker) => now >= worker.avoidUntil);
            const wanted = willing.length > 0 ? willing : usable;
            expect(set.candidates(now).map(({ name }) => name)).toEqual(wanted.map(({ name }) => name));
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test("a half-open worker alone is tried by one request a second while its probe says nothing, and by none beside one that is well", () => {
    const set = new WorkerSet();
    const [worker, other] = makeWorkers(2);
    set.add(worker!);
    for (let n = 0; n < breakerConfig.failures; n++) worker!.failed(0);
    const at = breakerConfig.openMs;
    const taken: number[] = [];
    for (let now = at; now < at + 3_000; now += 250) {
      if (set.lastResort(now).length === 0) continue;
      taken.push(now - at);
      acquire(worker!, 1, now);
    }
    expect(taken).toEqual([0, 1_000, 2_000]);
    set.add(other!);
    expect(set.lastResort(at + 9_000)).toEqual([other!]);
    worker!.succeeded(at + 9_000);
    expect(set.candidates(at + 9_000).length).toBe(2);
  });
});
