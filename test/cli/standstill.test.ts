import { expect, test } from "bun:test";
import { ScriptedEngine } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { RawClient } from "../faults/raw-client.ts";
import { contentEvent, requestBody } from "../faults/streams.ts";
import { RouterProcess } from "./router-process.ts";

const IDLE_MS = 400;
const STOPPED_MS = 1_500;
const EVENT_MS = 50;
const EVENTS = 60;
const STREAMS = 8;

test("a router that was stopped (a busy host, a suspended machine) does not take its own absence for the engines' silence", async () => {
  const event = contentEvent("chat", "x");
  const decode = await ScriptedEngine.start(async function play(wire) {
    await wire.head(200, "text/event-stream");
    for (let at = 0; at < EVENTS; at++) {
      await wire.chunk(event);
      await wire.pause(EVENT_MS);
    }
    await wire.chunk("data: [DONE]\n\n");
    await wire.end();
  });
  const prefill = await ScriptedEngine.start((wire) => wire.json(200, prefillAnswer("sglang", "chat")));
  await using router = await RouterProcess.start({
    models: [{ id: "m", pools: [{ name: "default", engine: "sglang", prefill: [prefill.url], decode: [decode.url] }] }],
    timeouts: { idleMs: IDLE_MS },
    health: { intervalMs: 0 },
    log: { level: "error" },
  });
  const request = { port: router.port, path: "/v1/chat/completions", body: requestBody("chat", true) };
  const clients = Array.from({ length: STREAMS }, () => new RawClient(request));
  await Promise.all(clients.map((client) => client.until(600)));
  process.kill(router.pid, "SIGSTOP");
  await Bun.sleep(STOPPED_MS);
  process.kill(router.pid, "SIGCONT");
  const answers = await Promise.all(clients.map((client) => client.answer()));
  await Promise.all([decode.close(), prefill.close()]);
  for (const answer of answers) {
    expect([answer.status, answer.flaw]).toEqual([200, ""]);
    expect(answer.body.toString()).toBe(`${event.toString().repeat(EVENTS)}data: [DONE]\n\n`);
  }
});
