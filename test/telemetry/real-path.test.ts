import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import { MemoryStore } from "../../src/shared/memory-store.ts";
import { METRIC } from "../../src/telemetry/names.ts";
import type { OtlpSpan } from "../../src/telemetry/spans.ts";
import { type Exchange, ScriptedEngine, type Wire } from "../faults/engine.ts";
import { prefillAnswer } from "../faults/prefill-answers.ts";
import { RawClient } from "../faults/raw-client.ts";
import { eventually } from "../faults/served-router.ts";
import { answerBody, answerEvents, errorEvent } from "../faults/streams.ts";
import { readExposition, type Sample } from "./hand-made.ts";

const ADMIN = "the-admin-key";
const CALLER = { trace: "0af7651916cd43dd8448eb211c80319c", span: "b7ad6b7169203331" };
const TIMEOUTS = { settleMs: 60, tailMs: 800, prefillMs: 3_000, firstTokenMs: 3_000, idleMs: 3_000 };
const USAGE =
  'data: {"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":512}}}\n\n';

/** How long prefill's answer takes, and what it is, by the case a request names. */
async function prefill(wire: Wire, exchange: Exchange, engine: "sglang" | "vllm"): Promise<void> {
  const wanted = exchange.request.headers.get("x-case") ?? "";
  const [, ms] = /prefill-(\d+)/.exec(wanted) ?? [];
  if (ms !== undefined) await wire.pause(Number(ms));
  if (wanted.includes("prefill-never")) return wire.silence();
  if (wanted.includes("prefill-fails")) return wire.json(500, '{"error":{"message":"KV transfer failed"}}');
  return wire.json(200, prefillAnswer(engine, "chat"));
}

async function decode(wire: Wire, { request, nth }: Exchange, seen: Map<string, number>): Promise<void> {
  const wanted = request.headers.get("x-case") ?? "";
  const times = (seen.get(wanted) ?? 0) + 1;
  seen.set(wanted, times);
  if (wanted.includes("decode-refuses-once") && times === 1) return wire.json(503, '{"error":{"message":"full"}}');
  if (wanted.includes("decode-fails")) return wire.json(500, '{"error":{"message":"broken"}}');
  if (!request.body.includes('"stream":true')) return wire.json(200, answerBody("chat"));
  await wire.head(200, "text/event-stream");
  const events = answerEvents("chat");
  for (const { role, bytes } of events) {
    if (role === "end") {
      if (wanted.includes("error-after-finish")) await wire.chunk(errorEvent("chat"));
      if (wanted.includes("no-end-mark")) return wire.end();
      await wire.chunk(USAGE);
    }
    await wire.chunk(bytes);
    await wire.pause(nth > 0 && wanted.includes("slow") ? 60 : 5);
  }
  await wire.end();
}

describe("every metric is fed on the real path", () => {
  const engines: ScriptedEngine[] = [];
  const spans: OtlpSpan[] = [];
  const most = new Map<string, number>();
  const series = new Map<string, Sample>();
  let collector: ReturnType<typeof Bun.serve>;
  let server: RouterServer;

  beforeAll(async () => {
    let exports = 0;
    collector = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      async fetch(request) {
        const sent = (await request.json()) as { resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[] };
        spans.push(...sent.resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
        exports += 1;
        return Response.json(exports === 1 ? { partialSuccess: { rejectedSpans: "1" } } : {});
      },
    });
    const start = async (play: (wire: Wire, exchange: Exchange) => Promise<void>) => {
      const engine = await ScriptedEngine.start(play);
      engines.push(engine);
      return engine.url;
    };
    const seen = new Map<string, number>();
    const sglang = {
      name: "s",
      engine: "sglang",
      prefill: [await start((wire, exchange) => prefill(wire, exchange, "sglang"))],
      decode: [
        await start((wire, exchange) => decode(wire, exchange, seen)),
        await start((wire, exchange) => decode(wire, exchange, seen)),
      ],
    };
    const vllm = {
      name: "v",
      engine: "vllm",
      cancel: "deferred",
      prefill: [await start((wire, exchange) => prefill(wire, exchange, "vllm"))],
      decode: [await start((wire, exchange) => decode(wire, exchange, seen))],
    };
    const gone = { name: "g", engine: "openai", workers: [{ name: "gone", url: "http://127.0.0.2:9" }] };
    const router = createBunRouter({
      config: {
        listen: { port: 0 },
        models: [
          { id: "s", pools: [sglang] },
          { id: "v", pools: [vllm] },
          { id: "gone", pools: [gone] },
        ],
        auth: { adminKeyEnv: "ADMIN" },
        limits: { concurrency: 2, queue: 8 },
        timeouts: TIMEOUTS,
        breaker: { failures: 4, openMs: 60_000 },
        retries: { backoffMs: 1 },
        health: { intervalMs: 400, failures: 1_000 },
        telemetry: { otlpUrl: `http://127.0.0.1:${collector.port}` },
        log: { level: "silent" },
      },
      env: { ADMIN },
      store: new MemoryStore(),
    });
    server = serveBun(router);
    await drive();
  }, 30_000);

  afterAll(async () => {
    await server.stop(0);
    await collector.stop(true);
    await Promise.all(engines.map((engine) => engine.close()));
  });

  /** The greatest value of each series so far: gauges go up and down. */
  async function scrape(): Promise<void> {
    const page = await (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();
    for (const sample of readExposition(page).samples) {
      const key = `${sample.name}${JSON.stringify(sample.labels)}`;
      series.set(key, sample);
      most.set(key, Math.max(most.get(key) ?? 0, sample.value));
    }
  }

  async function chat(model: string, named: string, stream = true): Promise<{ status: number; text: string }> {
    const content = `${"The same long beginning, so that its blocks are known. ".repeat(60)}${named}`;
    const response = await fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-case": named,
        traceparent: `00-${CALLER.trace}-${CALLER.span}-01`,
        "x-request-id": named,
      },
      body: JSON.stringify({
        model,
        stream,
        messages: [{ role: "user", content }],
        ...(stream ? { stream_options: { include_usage: true } } : {}),
      }),
    });
    return { status: response.status, text: await response.text() };
  }

  async function drive(): Promise<void> {
    await chat("s", "plain");
    await chat("s", "prefill-30");
    expect((await chat("s", "slow:prefill-fails:prefill-120")).text).toContain("KV transfer failed");
    await chat("s", "late:prefill-fails:prefill-500");
    await chat("s", "tail:prefill-400");
    await chat("s", "cut:prefill-never");
    await scrape();
    await chat("s", "no-end-mark");
    await chat("s", "error-after-finish");
    expect((await chat("s", "decode-refuses-once")).status).toBe(200);
    expect((await chat("v", "plain")).status).toBe(200);
    expect((await chat("v", "decode-fails", false)).status).toBe(500);
    await leaveEarly();
    for (let i = 0; i < 5; i++) await chat("gone", "nobody", false);
    await chat("nobody", "unknown");
    await inFlight();
    await fetch(`http://127.0.0.1:${server.port}/workers/gone/drain`, {
      method: "POST",
      headers: { authorization: `Bearer ${ADMIN}` },
    });
    await eventually(3_000, () => (server.router.services.telemetry.recent.runningCount === 0 ? "" : "still running"));
    await Bun.sleep(TIMEOUTS.tailMs + 50);
    await server.router.services.telemetry.flush();
    await chat("s", "exported");
    await Bun.sleep(100);
    await server.router.services.telemetry.flush();
    await scrape();
  }

  /** A client that leaves while prefill works: its hand-off is released. */
  async function leaveEarly(): Promise<void> {
    const body = JSON.stringify({ model: "v", messages: [{ role: "user", content: "x" }] });
    const client = new RawClient({
      port: server.port,
      path: "/v1/chat/completions",
      body,
      headers: { "x-case": "left:prefill-100" },
    });
    await Bun.sleep(40);
    client.hangUp();
    await Bun.sleep(200);
  }

  /** More at once than are let in. */
  async function inFlight(): Promise<void> {
    const running = [1, 2, 3, 4].map((n) => chat("s", `slow:prefill-100:${n}`));
    await Bun.sleep(60);
    await scrape();
    await Promise.all(running);
  }

  test.each(Object.values(METRIC))("%s has moved", (name) => {
    const moved = [...series].filter(([, sample]) => sample.name === name || sample.name === `${name}_count`);
    expect(moved.length).toBeGreaterThan(0);
    expect(Math.max(...moved.map(([key]) => most.get(key)!))).toBeGreaterThan(0);
  });

  function value(name: string, labels: Record<string, string>): number {
    let sum = 0;
    for (const [key, sample] of series) {
      const fits = Object.entries(labels).every(([label, wanted]) => sample.labels[label] === wanted);
      if (sample.name === name && fits) sum += most.get(key)!;
    }
    return sum;
  }

  test("late failures tell their kind and whether the stream still ran", () => {
    expect(value(METRIC.lateFailures, { kind: "status", when: "streaming" })).toBe(1);
    expect(value(METRIC.lateFailures, { kind: "status", when: "after_end" })).toBe(1);
    expect(value(METRIC.errorFrames, {})).toBe(1);
    expect(value(METRIC.drainsCut, {})).toBe(1);
    expect(value(METRIC.completedByRouter, { reason: "no_end_mark" })).toBe(1);
    expect(value(METRIC.droppedAfterFinish, {})).toBe(1);
    expect(value(METRIC.handoffsReleased, {})).toBe(1);
  });

  test("outcomes, retries, breaker and policy have labels that say which", () => {
    expect(value(METRIC.requests, { model: "s", outcome: "prefill_failed" })).toBe(1);
    expect(value(METRIC.requests, { model: "v", outcome: "decode_failed" })).toBe(1);
    expect(value(METRIC.requests, { model: "v", outcome: "client_cancel" })).toBe(1);
    expect(value(METRIC.requests, { model: "other", outcome: "rejected" })).toBe(1);
    expect(value(METRIC.retries, { stage: "decode" })).toBeGreaterThan(0);
    expect(value(METRIC.breakerChanges, { worker: "gone", state: "open" })).toBe(1);
    expect(value(METRIC.workerBreakerState, { worker: "gone" })).toBe(2);
    expect(value(METRIC.workerDraining, { worker: "gone" })).toBe(1);
    expect(value(METRIC.policyChoices, { policy: "prefix-aware", role: "prefill" })).toBeGreaterThan(5);
    expect(value(METRIC.cachedTokens, { model: "s" })).toBeGreaterThanOrEqual(512);
  });

  test("a tail that outlived its response is a drain in the request's own trace, below the caller's span", () => {
    const request = spans.find(({ attributes }) =>
      attributes.some(({ value: said }) => "stringValue" in said && said.stringValue.startsWith("tail:")),
    );
    expect(request?.traceId).toBe(CALLER.trace);
    expect(request?.parentSpanId).toBe(CALLER.span);
    const children = spans.filter(({ parentSpanId }) => parentSpanId === request!.spanId);
    expect(children.map(({ name }) => name).sort()).toEqual(["decode", "drain", "prefill"]);
    for (const { traceId } of children) expect(traceId).toBe(CALLER.trace);
    const drain = children.find(({ name }) => name === "drain")!;
    const took = Number(BigInt(drain.endTimeUnixNano) - BigInt(drain.startTimeUnixNano)) / 1e6;
    expect(took).toBeGreaterThan(10);
    expect(took).toBeLessThan(TIMEOUTS.tailMs);
    expect(drain.startTimeUnixNano).toBe(request!.endTimeUnixNano);
  });

  test("a sequential hand-off is a span between the legs; engines get their leg's own span as parent", () => {
    const request = spans.find(
      ({ name, attributes }) =>
        name.startsWith("POST") &&
        attributes.some(
          ({ key, value: said }) => key === "gen_ai.request.model" && "stringValue" in said && said.stringValue === "v",
        ),
    )!;
    const children = spans.filter(({ parentSpanId }) => parentSpanId === request.spanId);
    expect(children.map(({ name }) => name)).toEqual(["prefill", "handoff", "decode"]);
    const told = engines.flatMap(({ exchanges }) =>
      exchanges.map((exchange) => exchange.request.headers.get("traceparent")),
    );
    for (const { name, spanId } of children.filter(({ name }) => name !== "handoff")) {
      expect({ name, told: told.includes(`00-${CALLER.trace}-${spanId}-01`) }).toEqual({ name, told: true });
    }
  });

  test("a buffered answer tells its timing to those who ask, and to nobody else; a stream never does", async () => {
    const ask = async (stream: boolean, headers: Record<string, string>) => {
      const response = await fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify({ model: "v", stream, messages: [{ role: "user", content: "x" }] }),
      });
      await response.text();
      return response.headers.get("server-timing");
    };
    expect(await ask(false, {})).toBeNull();
    expect(await ask(true, { "x-router-timing": "1" })).toBeNull();
    expect(await ask(false, { "x-router-timing": "yes" })).toBeNull();
    const told = await ask(false, { "x-router-timing": "1", "x-case": "buffered" });
    expect(told).toMatch(
      /^queue;dur=[\d.]+, prefill;dur=[\d.]+, handoff;dur=[\d.]+, decode;dur=[\d.]+, total;dur=[\d.]+$/,
    );
  });
});
