import { expect, test } from "bun:test";
import { EngineHouse, routerOver } from "../fleet/house.ts";
import { sampleOf } from "../telemetry/hand-made.ts";

const TIMES = 5_000;

test("ten thousand unknown models and paths make no metric grow, and all are counted as 404", async () => {
  const { router } = routerOver(new EngineHouse(), {
    models: [{ id: "m", pools: [{ engine: "openai", workers: ["http://w:1"] }] }],
    log: { level: "silent" },
  });
  const page = async () => (await router.fetch(new Request("http://router/metrics"))).text();
  const ask = async (path: string, body: string) => {
    const request = new Request(`http://router${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": `id-${path.length}`, "user-agent": path },
      body,
    });
    const response = await router.fetch(request);
    await response.text();
    expect(response.status).toBe(404);
  };
  // The first of a kind makes its series.
  await ask("/v1/chat/completions", '{"model":"unknown","messages":[]}');
  await ask("/unknown", "{}");
  const before = await page();
  for (let i = 0; i < TIMES; i++) {
    await ask("/v1/chat/completions", `{"model":"model-${i}","messages":[]}`);
    await ask(`/path-${i}`, "{}");
  }
  const after = await page();
  expect(after.length - before.length).toBeLessThan(2_048);
  expect(after).not.toContain("model-1");
  expect(after).not.toContain("path-1");
  const name = "prefill_router_rejected_total";
  expect(sampleOf(after, name, { code: "model_not_found" })).toBe(TIMES + 1);
  expect(sampleOf(after, name, { code: "not_found" })).toBe(TIMES + 1);
  expect(sampleOf(after, "prefill_router_responses_total", { model: "other", status: "4xx" })).toBe(TIMES + 1);
}, 30_000);
