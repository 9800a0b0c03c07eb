import { describe, expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import { makeEngine } from "../simulator/support.ts";
import { call, chat, EngineHouse, routerOver } from "./house.ts";

/** A vLLM pair; `prefill` says whether its prefill worker is there. */
function start(config: object, { prefill = true, aggregated = false } = {}) {
  const house = new EngineHouse();
  const fabric = createFabric();
  const common = { engine: "vllm", model: "m", fabric } as const;
  house.engines.set("http://d:1", makeEngine({ ...common, role: "decode" }));
  house.engines.set("http://w:1", makeEngine({ ...common, role: "aggregated" }));
  house.engines.set("http://p:1", makeEngine({ ...common, role: "prefill" }));
  const pool = {
    engine: "vllm",
    prefill: ["http://p:1"],
    decode: ["http://d:1"],
    workers: aggregated ? ["http://w:1"] : [],
  };
  const { router } = routerOver(house, { models: [{ id: "m", pools: [pool] }], ...config });
  if (!prefill) router.services.fleet.drain("prefill-1");
  return { router, house };
}

const long = "many words ".repeat(400);

describe("the way a request went is told in its header and counted", () => {
  test.each([
    ["split", {}, {}, "short", "disaggregated"],
    [
      "no prefill worker, and decode may do it alone",
      { onNoPrefill: "decode-only" },
      { prefill: false },
      "short",
      "decode-only",
    ],
    ["a prompt below minPromptTokens", { minPromptTokens: 500 }, {}, "short", "decode-only"],
    ["the same with an aggregated worker", { minPromptTokens: 500 }, { aggregated: true }, "short", "aggregated"],
    ["a prompt above minPromptTokens", { minPromptTokens: 500 }, {}, long, "disaggregated"],
    [
      "no prefill worker, and an aggregated one is there",
      {},
      { prefill: false, aggregated: true },
      "short",
      "aggregated",
    ],
  ])("%s", async (_what, disaggregation, fleet, prompt, path) => {
    const { router, house } = start({ disaggregation }, fleet);
    const answer = await call(router, "POST", "/v1/chat/completions", chat("m", prompt));
    expect([answer.status, answer.headers.get("x-router-path")]).toEqual([200, path]);
    expect(answer.headers.get("x-router-prefill")).toBe(path === "disaggregated" ? "prefill-1" : null);
    expect(router.telemetry.metrics.render()).toContain(`prefill_router_routed_total{model="m",path="${path}"} 1\n`);
    const reached = house.seen.map(({ url, body }) => [url, body.includes("kv_transfer_params")]);
    if (path !== "disaggregated")
      expect(reached).toEqual([[path === "aggregated" ? "http://w:1" : "http://d:1", false]]);
    else expect(reached.map(([url]) => url)).toEqual(["http://p:1", "http://d:1"]);
  });

  test("by default a request that finds no prefill worker is refused, and reaches nobody", async () => {
    const { router, house } = start({}, { prefill: false });
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect([answer.status, answer.json.error.code, answer.headers.get("retry-after")]).toEqual([
      503,
      "no_prefill_workers",
      "1",
    ]);
    expect(house.seen).toEqual([]);
  });
});
