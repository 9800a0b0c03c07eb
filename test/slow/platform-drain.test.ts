import { afterAll, expect, test } from "bun:test";
import { ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { ask } from "../faults/raw-client.ts";
import { answerEvents, requestBody } from "../faults/streams.ts";
import { type RouterProcess, startRouter } from "../runtimes/process.ts";
import type { RuntimeName } from "../runtimes/scenario.ts";

/**
 * A prefill tail that stays open long after its response. Workers kill what is left in `waitUntil` thirty seconds after the response, so
 * the router cuts the tail before, whatever `tailMs` says; elsewhere at `tailMs`.
 */

const PLATFORM_MS = 30_000;
const TAIL_STAYS_MS = 60_000;
const DEFAULT_TAIL_MS = 20_000;
const SLACK_MS = 2_000;
const TEST_MS = TAIL_STAYS_MS + 30_000;

const closing: (() => Promise<unknown>)[] = [];
afterAll(async function closeAll() {
  for (const close of closing.reverse()) await close();
});

async function engine(play: (wire: Wire, body: string) => Promise<void>): Promise<ScriptedEngine> {
  const started = await ScriptedEngine.start((wire, { request }) => play(wire, request.body));
  closing.push(() => started.close());
  return started;
}

async function inFlight({ port }: RouterProcess): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const gauges = [...page.matchAll(/^prefill_router_worker_in_flight\{[^}]*role="prefill"[^}]*\} (\d+)$/gm)];
  if (gauges.length !== 2) throw new Error(`Expected a gauge per prefill worker, got:\n${page}`);
  return gauges.reduce((sum, [, value]) => sum + Number(value), 0);
}

const CASES: readonly { runtime: RuntimeName; tailMs: number; cutAfterMs: number; atMostMs: number }[] = [
  { runtime: "workerd", tailMs: DEFAULT_TAIL_MS, cutAfterMs: DEFAULT_TAIL_MS, atMostMs: PLATFORM_MS },
  // More than the platform gives: the router keeps below it all the same.
  { runtime: "workerd", tailMs: TAIL_STAYS_MS, cutAfterMs: DEFAULT_TAIL_MS, atMostMs: PLATFORM_MS },
  { runtime: "bun", tailMs: DEFAULT_TAIL_MS, cutAfterMs: DEFAULT_TAIL_MS, atMostMs: DEFAULT_TAIL_MS + SLACK_MS },
  { runtime: "deno", tailMs: DEFAULT_TAIL_MS, cutAfterMs: DEFAULT_TAIL_MS, atMostMs: DEFAULT_TAIL_MS + SLACK_MS },
  { runtime: "node", tailMs: DEFAULT_TAIL_MS, cutAfterMs: DEFAULT_TAIL_MS, atMostMs: DEFAULT_TAIL_MS + SLACK_MS },
];

test.concurrent.each([...CASES])(
  "$runtime, tailMs $tailMs: the tail is cut in time, its worker is idle again, and nobody complains",
  async ({ runtime, tailMs, cutAfterMs, atMostMs }) => {
    const decode = await engine(async function play(wire) {
      await wire.head(200, "text/event-stream");
      for (const { bytes } of answerEvents("chat")) await wire.chunk(bytes);
      await wire.end();
    });
    const [slow, quick] = [
      await engine(async function play(wire) {
        await wire.pause(TAIL_STAYS_MS);
        await wire.json(200, prefillAnswer("sglang", "chat"));
      }),
      await engine((wire) => wire.json(200, prefillAnswer("sglang", "chat"))),
    ];
    const router = await startRouter(runtime, {
      listen: { host: "127.0.0.1", port: 0 },
      models: [
        {
          id: "m",
          pools: [{ name: "default", engine: "sglang", prefill: [slow.url, quick.url], decode: [decode.url] }],
        },
      ],
      policy: { prefill: "least-load", decode: "least-load" },
      timeouts: { tailMs },
      health: { intervalMs: 0 },
      retries: { maxRetries: 0 },
      log: { level: "warn" },
    });
    closing.push(() => router.stop());
    const request = { port: router.port, path: "/v1/chat/completions", body: requestBody("chat", true) };
    const whole = Buffer.concat(answerEvents("chat").map(({ bytes }) => bytes)).toString();
    async function answered(): Promise<void> {
      const answer = await ask(request);
      expect([answer.status, answer.flaw]).toEqual([200, ""]);
      expect(answer.body.toString()).toBe(whole);
    }

    // Whoever has its turn first: the second at the latest meets the slow one.
    for (let n = 0; n < 2 && slow.exchanges.length === 0; n++) await answered();
    expect(slow.exchanges).toHaveLength(1);
    const responseOver = performance.now();
    expect(await inFlight(router)).toBe(1);
    // While the tail is open its worker counts as busy, so others are chosen.
    const before = quick.exchanges.length;
    await answered();
    expect([slow.exchanges.length, quick.exchanges.length]).toEqual([1, before + 1]);

    while (!slow.exchanges[0]!.gone && performance.now() - responseOver < TAIL_STAYS_MS) await Bun.sleep(50);
    const cutAt = performance.now() - responseOver;
    console.log(`${runtime}, tailMs ${tailMs}: cut ${(cutAt / 1000).toFixed(2)} s after the response`);
    expect(cutAt).toBeGreaterThanOrEqual(cutAfterMs - 1_000);
    expect(cutAt).toBeLessThan(atMostMs);
    await Bun.sleep(200);
    expect(await inFlight(router)).toBe(0);
    // Idle again, and longest ago chosen: its turn.
    await answered();
    expect(slow.exchanges).toHaveLength(2);
    expect(router.stderr.split("\n").filter((line) => /waitUntil|cancell?ed|hung|never/i.test(line))).toEqual([]);
  },
  TEST_MS,
);
