import { expect, test } from "bun:test";
import { createRouter } from "../../src/create-router.ts";
import { EngineFacts } from "../../src/fleet/engine-facts.ts";
import { settled } from "../attempt/hand-made.ts";
import { HandTransport } from "../legs/hand-made.ts";
import { ManualClock } from "../manual-clock.ts";

test("a question that died with whatever it rode on is asked again, and no request waits for it for ever", async () => {
  const clock = new ManualClock();
  const pool = { engine: "vllm", connector: "mooncake", prefill: ["http://p:1"], decode: ["http://d:1"] };
  const config = { models: [{ id: "m", pools: [pool] }] };
  const { services } = createRouter({ config, clock, transport: new HandTransport() } as never);
  const asked: string[] = [];
  const facts = new EngineFacts({
    fleet: services.fleet,
    ask: (url) => {
      asked.push(url);
      return new Promise(() => {});
    },
    clock,
    onProblems: () => {},
  });
  const worker = services.fleet.workers().find(({ role }) => role === "prefill")!;
  void facts.run();
  let introduced = false;
  void facts.introduce(worker).then(() => {
    introduced = true;
  });
  await clock.advance(11_000);
  void facts.run();
  expect([asked.length, introduced]).toEqual([1, false]);
  await clock.advance(2_000);
  await settled();
  void facts.run();
  expect([asked.length, introduced]).toEqual([2, true]);
});
