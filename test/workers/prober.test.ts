import { describe, expect, test } from "bun:test";
import type { ProbeResult } from "../../src/workers/health.ts";
import { type FetchProbe, Prober } from "../../src/workers/prober.ts";
import { fleetConfig, HandClock, healthConfig, makeFleet } from "./fixtures.ts";

const ok: ProbeResult = { kind: "answer", status: 200 };

describe("Prober", () => {
  test("probes each worker when its time has come, at the engine's path and with its patience", async () => {
    const clock = new HandClock();
    const asked: string[] = [];
    const answer: FetchProbe = async (worker, path, timeoutMs) => {
      asked.push(`${worker.name} ${path} ${timeoutMs}`);
      return ok;
    };
    const prober = new Prober(makeFleet(), answer, clock);
    await prober.run().done;
    expect(asked).toEqual(["p1", "p2", "d1", "d2"].map((name) => `${name} /ready 2000`));
    expect(prober.run().started).toBe(0);
    clock.advance(5000);
    expect(prober.run().started).toBe(4);
  });

  test("one worker whose probe hangs delays none of the others' probes", async () => {
    const clock = new HandClock();
    const fleet = makeFleet(fleetConfig({ health: { ...healthConfig, failures: 1 } }));
    let finish: (result: ProbeResult) => void = () => {};
    const asked: string[] = [];
    const prober = new Prober(
      fleet,
      (worker) => {
        asked.push(worker.name);
        if (worker.name === "p2") return new Promise((resolve) => (finish = resolve));
        return Promise.resolve(worker.name === "d1" && clock.now() < 5000 ? { kind: "error" } : ok);
      },
      clock,
    );
    const { done } = prober.run();
    await Promise.resolve().then(() => undefined);
    await Promise.resolve();
    expect(fleet.worker("d1")!.usable(0)).toBe(false);
    asked.length = 0;
    clock.advance(5000);
    await prober.run().done;
    expect(asked).toEqual(["p1", "d1", "d2"]);
    expect(fleet.worker("d1")!.usable(5000)).toBe(true);
    finish({ kind: "timeout" });
    await done;
    expect(fleet.worker("p2")!.usable(5000)).toBe(false);
  });

  test("a probe that throws is a failed one, and run never rejects", async () => {
    const fleet = makeFleet(fleetConfig({ health: { ...healthConfig, failures: 1 } }));
    const prober = new Prober(fleet, () => Promise.reject(new Error("no route")), new HandClock());
    await prober.run().done;
    expect(fleet.ready(0)[0]!.ready).toBe(false);
  });

  test("with interval 0 nothing is ever sent", () => {
    const fleet = makeFleet(fleetConfig({ health: { ...healthConfig, intervalMs: 0 } }));
    expect(new Prober(fleet, () => Promise.resolve(ok), new HandClock()).run().started).toBe(0);
  });
});
