import { describe, expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import { ManualClock, makeEngine, settle } from "../simulator/support.ts";
import { call, chat, EngineHouse, routerOver } from "./house.ts";

const PREFILL_MS = 10_000;

/** Two workers per leg; the first of `hanging`'s leg takes requests and says nothing. */
function start(hanging: "prefill" | "decode") {
  const house = new EngineHouse();
  const clock = new ManualClock();
  const fabric = createFabric({ clock });
  const common = { engine: "sglang", model: "m", fabric, clock } as const;
  for (const n of [1, 2]) {
    const faults = (leg: string) => (n === 1 && leg === hanging ? ["hang"] : []);
    const sidePort = 9000 + n;
    house.engines.set(
      `http://p${n}:1`,
      makeEngine({ ...common, role: "prefill", sidePort, faults: faults("prefill") }),
    );
    house.engines.set(`http://d${n}:1`, makeEngine({ ...common, role: "decode", faults: faults("decode") }));
  }
  const prefill = [1, 2].map((n) => ({ url: `http://p${n}:1`, name: `p${n}`, bootstrapPort: 9000 + n }));
  const decode = [1, 2].map((n) => ({ url: `http://d${n}:1`, name: `d${n}` }));
  const { router } = routerOver(
    house,
    {
      models: [{ id: "m", pools: [{ engine: "sglang", prefill, decode }] }],
      policy: { prefill: "round-robin", decode: "round-robin" },
      timeouts: { prefillMs: PREFILL_MS },
      breaker: { failures: 1 },
      retries: { maxRetries: 0 },
    },
    { clock },
  );
  const breakers = () => router.control.list().workers.map(({ name, breaker }) => `${name} ${breaker}`);
  return { router, clock, breakers };
}

describe("where both legs run at once, one that hangs makes the other one late", () => {
  test.each([
    ["decode", "d1"],
    ["prefill", "p1"],
  ] as const)("a hanging %s worker loses its own breaker and nobody else's", async (leg, name) => {
    const { router, clock, breakers } = start(leg);
    const ask = () => call(router, "POST", "/v1/chat/completions", chat());
    const hung = ask();
    await settle();
    // Pairs take turns, p1 with d1, p2 with d2; one more shift lets the healthy partner of the hanging one answer somebody.
    expect((await ask()).status).toBe(200);
    const { fleet } = router.services;
    fleet.drain(leg === "decode" ? "d1" : "p1");
    fleet.drain(leg === "decode" ? "p2" : "d2");
    expect((await ask()).status).toBe(200);
    fleet.worker(leg === "decode" ? "d1" : "p1")!.draining = false;
    fleet.worker(leg === "decode" ? "p2" : "d2")!.draining = false;
    await clock.advance(PREFILL_MS);
    const answer = await hung;
    expect([answer.status, answer.json.error.code]).toEqual([504, "prefill_timeout"]);
    expect(breakers()).toEqual(["p1", "p2", "d1", "d2"].map((each) => `${each} ${each === name ? "open" : "closed"}`));
  });

  test("while nobody has answered since, both are suspects", async () => {
    const { router, clock, breakers } = start("decode");
    const hung = call(router, "POST", "/v1/chat/completions", chat());
    await clock.advance(PREFILL_MS);
    expect((await hung).status).toBe(504);
    expect(breakers()).toEqual(["p1 open", "p2 closed", "d1 open", "d2 closed"]);
  });
});
