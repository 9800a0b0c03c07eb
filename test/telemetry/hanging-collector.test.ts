import { expect, test } from "bun:test";
import { createRouter } from "../../src/create-router.ts";
import { settled } from "../attempt/hand-made.ts";
import { HandTransport } from "../legs/hand-made.ts";
import { ManualClock } from "../manual-clock.ts";

test("a collector that does not answer holds up no shutdown", async () => {
  using collector = Bun.serve({ port: 0, fetch: () => new Promise<Response>(() => {}) });
  const clock = new ManualClock();
  const pool = { engine: "openai", workers: ["http://w:1"] };
  const transport = new HandTransport();
  transport.onRequest = (request) => request.json({ choices: [] });
  const router = createRouter({
    config: {
      models: [{ id: "m", pools: [pool] }],
      telemetry: { otlpUrl: `http://127.0.0.1:${collector.port}` },
      log: { level: "silent" },
    },
    clock,
    transport,
  });
  for (let n = 0; n < 300; n++) {
    const body = new Request("http://r/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"model":"m","messages":[]}',
    });
    expect((await router.fetch(body)).status).toBe(200);
  }
  let over = false;
  void router.shutdown(0).then(() => {
    over = true;
  });
  await clock.advance(1_900);
  await settled();
  expect(over).toBe(false);
  await clock.advance(1_200);
  await settled();
  expect(over).toBe(true);
});
