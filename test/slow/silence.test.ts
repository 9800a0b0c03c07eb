import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { type RawAnswer, RawClient } from "../faults/raw-client.ts";
import { answerBody, answerEvents, requestBody } from "../faults/streams.ts";
import { type RouterProcess, startRouter } from "../runtimes/process.ts";
import type { RuntimeName } from "../runtimes/scenario.ts";

/**
 * Runtimes have limits of their own that no quick test meets: Bun's server drops a connection that is silent for ten seconds, its `fetch`
 * and Node's give up after five minutes. These tests wait them out, all at the same time, on real processes of every runtime.
 */

const RUNTIMES: readonly RuntimeName[] = ["bun", "deno", "node", "workerd"];
const OVER_TEN_SECONDS = 15_000;
/** The ceiling of what Bun's `idleTimeout` can express is 255 s. */
const LONG_PAUSE = 300_000;
const OVER_FIVE_MINUTES = 330_000;
/** What a busy machine may add, and the longest test. */
const SLACK_MS = 10_000;
const TEST_MS = OVER_FIVE_MINUTES + 30_000;
const KEEP_ALIVE_MS = 10_000;
const NO_WAIT = "0";
/** How many each runtime is asked. */
const REQUESTS = 7;

const whole = Buffer.concat(answerEvents("chat").map(({ bytes }) => bytes)).toString();

let prefill: ScriptedEngine;
let decode: ScriptedEngine;
/** Two routers of each runtime: one that sends keep-alive comments, and one that does not. */
interface Routers {
  plain: RouterProcess;
  keepingAlive: RouterProcess;
}
const routers = new Map<RuntimeName, Routers>();

/** Each request tells by its own headers how long which leg is silent. */
function waitOf(wire: { headers: Headers }, name: string): number {
  return Number(wire.headers.get(name) ?? NO_WAIT);
}

async function playSilentDecode(wire: Wire, headers: Headers, streaming: boolean): Promise<void> {
  await wire.pause(waitOf({ headers }, "x-decode-head-ms"));
  if (!streaming) return await wire.json(200, answerBody("chat"));
  await wire.head(200, "text/event-stream");
  let answers = 0;
  for (const { role, bytes } of answerEvents("chat")) {
    if (role === "answer" && ++answers === 2) await wire.pause(waitOf({ headers }, "x-decode-pause-ms"));
    await wire.chunk(bytes);
  }
  await wire.end();
}

beforeAll(async function startAll() {
  prefill = await ScriptedEngine.start(async function play(wire, { request }) {
    await wire.pause(waitOf(request, "x-prefill-ms"));
    await wire.json(200, prefillAnswer(request.body.includes("bootstrap_room") ? "sglang" : "vllm", "chat"));
  });
  decode = await ScriptedEngine.start(function play(wire, { request }) {
    return playSilentDecode(wire, request.headers, /"stream":\s*true/.test(request.body));
  });
  for (const runtime of RUNTIMES) {
    const [plain, keepingAlive] = await Promise.all([
      startRouter(runtime, config(0)),
      startRouter(runtime, config(KEEP_ALIVE_MS)),
    ]);
    routers.set(runtime, { plain, keepingAlive });
  }
}, 60_000);

afterAll(async function stopAll() {
  for (const { plain, keepingAlive } of routers.values()) await Promise.all([plain.stop(), keepingAlive.stop()]);
  await prefill?.close();
  await decode?.close();
});

function config(keepAliveMs: number): Record<string, unknown> {
  const urls = { prefill: [prefill.url], decode: [decode.url] };
  const pool = (engine: string) => [{ name: engine, engine, ...urls }];
  const limit = 600_000;
  return {
    listen: { host: "127.0.0.1", port: 0 },
    models: [
      { id: "m", pools: pool("vllm") },
      { id: "sg", pools: pool("sglang") },
    ],
    timeouts: { prefillMs: limit, firstTokenMs: limit, idleMs: limit, totalMs: limit, keepAliveMs },
    health: { intervalMs: 0 },
    retries: { maxRetries: 0 },
    log: { level: "warn" },
  };
}

interface Silence {
  runtime: RuntimeName;
  keepAlives?: boolean;
  model?: "m" | "sg";
  stream?: boolean;
  prefillMs?: number;
  decodeHeadMs?: number;
  decodePauseMs?: number;
}

/** One request through one silence. Fails when the answer came too early to have met it, or much too late. */
async function through(silence: Silence): Promise<RawAnswer> {
  const {
    runtime,
    keepAlives = false,
    model = "m",
    stream = true,
    prefillMs = 0,
    decodeHeadMs = 0,
    decodePauseMs = 0,
  } = silence;
  const router = routers.get(runtime)![keepAlives ? "keepingAlive" : "plain"];
  const client = new RawClient({
    port: router.port,
    path: "/v1/chat/completions",
    body: requestBody("chat", stream).replace('"model":"m"', `"model":"${model}"`),
    headers: {
      "x-prefill-ms": String(prefillMs),
      "x-decode-head-ms": String(decodeHeadMs),
      "x-decode-pause-ms": String(decodePauseMs),
    },
  });
  const answer = await client.answer(TEST_MS);
  // Both legs of SGLang are silent at the same time.
  const silent = (model === "sg" ? Math.max(prefillMs, decodeHeadMs) : prefillMs + decodeHeadMs) + decodePauseMs;
  expect(answer.flaw).toBe("");
  expect(answer.status).toBe(200);
  expect(answer.tookMs).toBeGreaterThanOrEqual(silent - 50);
  expect(answer.tookMs).toBeLessThan(silent + SLACK_MS);
  expect(router.stdout + router.stderr).not.toMatch(/timed? ?out|idle|error/i);
  console.log(`${runtime}, ${silent / 1000} s of silence: ${answer.status}, ${(answer.tookMs / 1000).toFixed(2)} s`);
  return answer;
}

/** Comments that the router put in, and what is left without them. */
function withoutComments({ body }: RawAnswer): { comments: number; rest: string } {
  const text = body.toString();
  const comments = text.match(/^: keep-alive\n\n/gm)?.length ?? 0;
  return { comments, rest: text.replaceAll(/^: keep-alive\n\n/gm, "") };
}

describe.each([...RUNTIMES])("%s", (runtime) => {
  test.concurrent(
    "prefill that answers after 15 s: the client's connection outlives Bun's 10 s",
    async () => {
      const answer = await through({ runtime, prefillMs: OVER_TEN_SECONDS });
      expect(answer.body.toString()).toBe(whole);
    },
    TEST_MS,
  );

  test.concurrent(
    "a pause of 15 s between two events: every byte arrives",
    async () => {
      const answer = await through({ runtime, decodePauseMs: OVER_TEN_SECONDS });
      expect(answer.body.toString()).toBe(whole);
    },
    TEST_MS,
  );

  test.concurrent(
    "a pause of 300 s between two events, beyond what Bun's own limit could be set to",
    async () => {
      const answer = await through({ runtime, decodePauseMs: LONG_PAUSE });
      expect(answer.body.toString()).toBe(whole);
    },
    TEST_MS,
  );

  test.concurrent(
    "prefill that answers after 330 s, with keep-alives: 200, comments all along, then the answer",
    async () => {
      const answer = await through({ runtime, keepAlives: true, prefillMs: OVER_FIVE_MINUTES });
      const { comments, rest } = withoutComments(answer);
      expect(rest).toBe(whole);
      expect(comments).toBeGreaterThanOrEqual(OVER_FIVE_MINUTES / KEEP_ALIVE_MS - 2);
      expect(comments).toBeLessThanOrEqual(OVER_FIVE_MINUTES / KEEP_ALIVE_MS + 1);
    },
    TEST_MS,
  );

  test.concurrent(
    "prefill that answers after 330 s, without keep-alives: not a byte for five and a half minutes, then all of it",
    async () => {
      const answer = await through({ runtime, prefillMs: OVER_FIVE_MINUTES });
      expect(answer.body.toString()).toBe(whole);
    },
    TEST_MS,
  );

  test.concurrent(
    "both legs at once, silent for 330 s (SGLang)",
    async () => {
      const answer = await through({
        runtime,
        model: "sg",
        prefillMs: OVER_FIVE_MINUTES,
        decodeHeadMs: OVER_FIVE_MINUTES,
      });
      expect(answer.body.toString()).toBe(whole);
    },
    TEST_MS,
  );

  test.concurrent(
    "a buffered answer that takes decode 330 s",
    async () => {
      const answer = await through({ runtime, stream: false, decodeHeadMs: OVER_FIVE_MINUTES });
      expect(answer.body.toString()).toBe(answerBody("chat"));
    },
    TEST_MS,
  );
});

test.concurrent(
  "afterwards nothing is in progress anywhere, and each leg was sent once",
  async () => {
    const asked = RUNTIMES.length * REQUESTS;
    while (decode.exchanges.filter(({ over }) => over).length < asked) await Bun.sleep(100);
    // The last bytes are on their way.
    await Bun.sleep(1_000);
    for (const { plain, keepingAlive } of routers.values()) {
      for (const { port } of [plain, keepingAlive]) {
        const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
        expect(metrics).toMatch(/^prefill_router_requests_in_progress(\{.*\})? 0$/m);
        expect(metrics).not.toMatch(/^prefill_router_worker_in_flight\{.*\} [1-9]/m);
      }
    }
    expect(prefill.exchanges).toHaveLength(asked);
    expect(decode.exchanges).toHaveLength(asked);
    const ids = [...prefill.exchanges, ...decode.exchanges].map(({ request }) => request.headers.get("x-request-id"));
    expect(new Set(ids).size).toBe(asked);
  },
  TEST_MS,
);
