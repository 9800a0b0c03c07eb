import { afterAll, expect, test } from "bun:test";
import { type SimulatorServer, serveSimulator } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { RouterProcess } from "../cli/router-process.ts";
import { ask, type RawAnswer } from "../faults/raw-client.ts";
import { requestBody } from "../faults/streams.ts";

/**
 * uvicorn closes a connection that has been idle for five seconds. A request that is sent on it in that very moment is lost: an ordinary
 * failed attempt, tried again at once, which no client sees, and which must never make decode read a hand-off twice.
 */

const IDLE_MS = 5_000;
/** As many connections to each engine as requests at once. */
const AT_ONCE = 24;
/** So long before the clients' five seconds are over the first of them asks again, and how far they are apart: the engines' own five seconds began a little earlier. */
const EARLY_MS = 44;
const APART_MS = 2;
const ROUNDS = 8;
const TEST_MS = ROUNDS * (IDLE_MS + 2_000) + 20_000;
const TIMING = { prefillMsPerToken: 0, itlMs: 0, transferMs: 0 };

const closing: (() => Promise<unknown>)[] = [];
afterAll(async function closeAll() {
  for (const close of closing.reverse()) await close();
});

async function serve(engine: SimulatedEngine): Promise<SimulatorServer> {
  const server = await serveSimulator(engine, { idleCloseMs: IDLE_MS });
  closing.push(() => server.close());
  return server;
}

for (const engine of ["sglang", "vllm", "trtllm"] as const) {
  test.concurrent(
    `${engine}: requests that meet the engines' idle close are answered, and no hand-off is read twice`,
    async () => {
      const common = { engine, model: "m", fabric: createFabric(), timing: TIMING };
      const prefill = createSimulatedEngine({ ...common, role: "prefill" });
      const decode = createSimulatedEngine({ ...common, role: "decode" });
      const at = { prefill: await serve(prefill), decode: await serve(decode) };
      const router = await RouterProcess.start({
        models: [{ id: "m", pools: [{ name: "default", engine, prefill: [at.prefill.url], decode: [at.decode.url] }] }],
        // A probe would keep connections warm that are to grow cold.
        health: { intervalMs: 0 },
        log: { level: "error" },
      });
      closing.push(() => router[Symbol.asyncDispose]());

      const request = { port: router.port, path: "/v1/chat/completions", body: requestBody("chat", true) };
      const burst = (apartMs: number) =>
        Promise.all(Array.from({ length: AT_ONCE }, (_, nth) => Bun.sleep(nth * apartMs).then(() => ask(request))));
      const [expected] = (await burst(0)).map(textOf);
      for (let round = 1; round <= ROUNDS; round++) {
        await Bun.sleep(IDLE_MS - EARLY_MS);
        const open = at.prefill.connections + at.decode.connections;
        const answers = await burst(APART_MS);
        // And again all at once, so that all connections of the next round grow cold together.
        for (const answer of [...answers, ...(await burst(0))]) {
          expect([answer.status, answer.flaw]).toEqual([200, ""]);
          expect(textOf(answer)).toBe(expected!);
        }
        console.log(`${engine}, round ${round}: ${open} connections, ${await retriesOf(router)} retries so far`);
      }

      const asked = AT_ONCE * (2 * ROUNDS + 1);
      expect(decode.stats).toMatchObject({
        reused: 0,
        mismatched: 0,
        expired: 0,
        poisoned: 0,
        failedReads: 0,
        local: 0,
      });
      expect(decode.stats.pulled).toBeGreaterThanOrEqual(asked);
      for (const { log } of [prefill, decode]) {
        const ids = log.filter(({ method }) => method === "POST").map(({ headers }) => headers.get("x-request-id"));
        // A retry has ids of its own, so one that comes twice was sent twice by somebody below the router.
        expect(new Set(ids).size).toBe(ids.length);
      }
    },
    TEST_MS,
  );
}

/** What the answer says, without ids and times. */
function textOf(answer: RawAnswer): string {
  return [...answer.body.toString().matchAll(/"content":("(?:[^"\\]|\\.)*")/g)]
    .map((match) => JSON.parse(match[1]!))
    .join("");
}

async function retriesOf({ port }: RouterProcess): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return [...page.matchAll(/^prefill_router_retries_total\{.*\} (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
}
