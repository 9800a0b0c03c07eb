import { describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { Script, Step } from "../../src/simulator/script.ts";
import { jsonScript, silentScript } from "../../src/simulator/script.ts";
import { type Between, postChat, sleep, startPair, user } from "./pair.ts";

const WORKER_SAYS = "Decode transfer of room failed: KV cache lost";
/** How long decode has been streaming when prefill fails. */
const LATE_MS = 120;

interface Kind {
  what: string;
  /** Made when prefill is about to answer; `now` is called at the moment it fails on the wire. */
  script(now: () => void): Script;
  /** The status before the first byte. */
  status: number;
  /** The worker's own words reach the client; a transport has none. */
  says: string;
}

const errorBody = JSON.stringify({ error: { message: WORKER_SAYS, type: "KVTransferError", code: 507 } });

const KINDS: readonly Kind[] = [
  {
    what: "a reset",
    script: (now) => ended(silentScript("rst"), now),
    status: 502,
    says: "closed the connection before it answered",
  },
  {
    what: "a cut in the middle of its answer",
    script: (now) => ({
      status: 200,
      headers: [
        ["content-type", "application/json"],
        ["content-length", "500"],
      ],
      steps: [told('{"id":"x","choices":[', now)],
      ending: "fin",
    }),
    status: 502,
    says: "cut its answer short",
  },
  {
    what: "a status with a JSON error",
    script: (now) => telling(jsonScript(500, errorBody), now),
    status: 500,
    says: WORKER_SAYS,
  },
  {
    what: "a JSON error inside a 200",
    script: (now) => telling(jsonScript(200, errorBody), now),
    status: 507,
    says: WORKER_SAYS,
  },
  {
    what: "an abort inside a 200",
    script: (now) =>
      telling(
        jsonScript(
          200,
          JSON.stringify({
            id: "x",
            choices: [
              {
                index: 0,
                message: { role: "assistant", content: "" },
                finish_reason: { type: "abort", message: WORKER_SAYS, status_code: 503 },
              },
            ],
          }),
        ),
        now,
      ),
    status: 503,
    says: WORKER_SAYS,
  },
  {
    what: "an error event",
    script: (now) => ({
      status: 200,
      headers: [["content-type", "text/event-stream"]],
      steps: [told(`data: ${errorBody}\n\ndata: [DONE]\n\n`, now)],
      ending: "clean",
    }),
    status: 507,
    says: WORKER_SAYS,
  },
];

function told(bytes: string, now: () => void): Step {
  return { bytes, wait: async () => now() };
}

function telling(script: Script, now: () => void): Script {
  return { ...script, steps: [...(script.steps as readonly Step[])].map(({ bytes }) => told(bytes as string, now)) };
}

function ended(script: Script, now: () => void): Script {
  return { ...script, onEnd: now };
}

describe.each(KINDS.map((kind) => [kind.what, kind] as const))("prefill fails with %s", (_what, kind) => {
  test("while decode streams: the openai package throws its words within 100 ms, and decode's socket is closed", async () => {
    let failedAt = 0;
    const decode = watchDecode();
    const between: Between = async (request, engine) => {
      if (request.method !== "POST") return engine.handle(request);
      // The engine really moves its blocks, so decode really streams; only what it says afterwards is another thing.
      const real = await engine.handle(request);
      real.onEnd?.("sent");
      await sleep(LATE_MS);
      return kind.script(() => {
        failedAt ||= performance.now();
      });
    };
    await using pair = await startPair("sglang", {
      itlMs: 10,
      answerTokens: 60,
      prefill: between,
      decode: decode.between,
    });
    const client = new OpenAI({ apiKey: "k", baseURL: `${pair.base}/v1`, maxRetries: 0 });
    const stream = await client.chat.completions.create({
      model: "demo-model",
      messages: user("Talk for long"),
      stream: true,
    });
    let text = "";
    let error: unknown;
    try {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    } catch (thrown) {
      error = thrown;
    }
    const tookMs = performance.now() - failedAt;
    expect(text.length).toBeGreaterThan(0);
    expect(error).toBeInstanceOf(OpenAI.APIError);
    expect((error as Error).message).toContain(kind.says);
    expect(failedAt).toBeGreaterThan(0);
    expect(tookMs).toBeLessThan(100);
    await decode.closed();
    await pair.idle();
    expect(pair.decode.stats).toMatchObject({ requests: 1, aborts: 1 });
  });

  test("before the first byte: a real status, with its words", async () => {
    const decode = watchDecode();
    const between: Between = (request, engine) =>
      request.method === "POST" ? early(kind.script(() => {})) : engine.handle(request);
    await using pair = await startPair("sglang", {
      prefill: between,
      decode: decode.between,
      config: { retries: { maxRetries: 0 } },
    });
    for (const stream of [true, false]) {
      const response = await postChat(pair.base, { messages: user("Talk"), stream });
      expect(response.status).toBe(kind.status);
      expect(response.headers.get("content-type")).toBe("application/json");
      const { error } = (await response.json()) as { error: Record<string, unknown> };
      expect(error.message).toContain(kind.says);
      expect(error.stage).toBe("prefill");
    }
    await decode.closed();
    await pair.idle();
  });
});

async function early(script: Script): Promise<Script> {
  await sleep(20);
  return script;
}

/** Watches the connections that carry decode's generations: closed by the router, not by the end of the answer. */
function watchDecode(): { between: Between; closed(): Promise<void> } {
  const signals: AbortSignal[] = [];
  return {
    between(request, engine) {
      if (request.method === "POST") signals.push(request.signal);
      return engine.handle(request);
    },
    async closed() {
      for (let waited = 0; waited < 500 && signals.some(({ aborted }) => !aborted); waited += 5) await sleep(5);
      expect(signals.map(({ aborted }) => aborted)).toEqual(signals.map(() => true));
      expect(signals.length).toBeGreaterThan(0);
    },
  };
}

test("definitive: the same reset while decode streams is counted, and the client gets its whole answer", async () => {
  const between: Between = async (request, engine) => {
    const real = await engine.handle(request);
    if (request.method !== "POST") return real;
    real.onEnd?.("sent");
    await sleep(LATE_MS);
    return silentScript("rst");
  };
  await using pair = await startPair("sglang", {
    itlMs: 10,
    answerTokens: 40,
    prefill: between,
    config: { lateFailure: "definitive" },
  });
  const response = await postChat(pair.base, { messages: user("Talk for long"), stream: true });
  const text = await response.text();
  expect(text).toContain('"finish_reason":"stop"');
  expect(text).toEndWith("data: [DONE]\n\n");
  expect(text).not.toContain('"error"');
  expect(pair.server.router.telemetry.metrics.render()).toMatch(/prefill_router_late_failures_total\{[^}]*\} 1/);
  await pair.idle();
});
