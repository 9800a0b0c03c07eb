import { describe, expect, test } from "bun:test";
import { METRIC } from "../../src/telemetry/names.ts";
import { Recent } from "../../src/telemetry/recent.ts";
import { createRecord, type RequestRecord } from "../../src/telemetry/record.ts";
import type { OtlpSpan } from "../../src/telemetry/spans.ts";
import { createTelemetry, type Telemetry } from "../../src/telemetry/telemetry.ts";
import { ManualClock, SPAN, sampleOf, TRACE, WALL } from "./hand-made.ts";

interface Watched {
  telemetry: Telemetry;
  clock: ManualClock;
  lines: Record<string, unknown>[];
  spans: OtlpSpan[];
}

function watch(options: { otlpUrl?: string; secrets?: string[] } = {}): Watched {
  const clock = new ManualClock();
  clock.time = 1000;
  const lines: Record<string, unknown>[] = [];
  const spans: OtlpSpan[] = [];
  const telemetry = createTelemetry(
    { models: ["demo-model"], log: { level: "info", prompts: false }, otlpUrl: options.otlpUrl },
    {
      clock,
      wallNow: () => WALL,
      sink: (line) => lines.push(JSON.parse(line) as Record<string, unknown>),
      fetch: async (_url, init) => {
        const payload = JSON.parse(String(init.body)) as { resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[] };
        spans.push(...payload.resourceSpans[0]!.scopeSpans[0]!.spans);
        return new Response("{}");
      },
      secrets: options.secrets ?? [],
      version: "1.2.3",
    },
  );
  return { telemetry, clock, lines, spans };
}

function serve(telemetry: Telemetry, headers: Record<string, string> = {}): RequestRecord {
  const record = telemetry.newRecord();
  telemetry.beginTrace(record, new Headers(headers));
  Object.assign(record, {
    id: "req-1",
    route: "/v1/chat/completions",
    model: "demo-model",
    path: "disaggregated",
    attempts: 1,
  });
  Object.assign(record, { prefillSentAt: 1002, decodeSentAt: 1002, finishedAt: 1500, status: 200, outcome: "success" });
  return record;
}

const COLLECTOR = { otlpUrl: "http://127.0.0.1:4318" };

describe("the walk of a request through telemetry", () => {
  test("it runs until it is done, and is counted, logged and remembered once", () => {
    const { telemetry, lines } = watch();
    const record = serve(telemetry);
    expect([...telemetry.recent.running()]).toEqual([record]);
    expect(sampleOf(telemetry.metrics.render(), METRIC.requestsInProgress)).toBe(1);
    telemetry.done(record);
    telemetry.done(record);
    const page = telemetry.metrics.render();
    expect(sampleOf(page, METRIC.requestsInProgress)).toBe(0);
    expect(sampleOf(page, METRIC.requests)).toBe(1);
    expect(lines.map((line) => line.event)).toEqual(["request"]);
    expect(telemetry.recent.finished()).toEqual([record]);
    expect([...telemetry.recent.running()]).toEqual([]);
  });

  test("every record has the same fields from the start", () => {
    const { telemetry } = watch();
    const fresh = telemetry.newRecord();
    expect(fresh).toEqual(createRecord(1000, WALL));
    const before = Object.keys(fresh);
    telemetry.beginTrace(fresh, new Headers({ baggage: "a=1" }));
    telemetry.drainOpened(fresh);
    telemetry.done(fresh);
    telemetry.drainClosed(fresh);
    expect(Object.keys(fresh)).toEqual(before);
  });

  test("configured keys are masked in engines' messages and in the log", () => {
    const { telemetry, lines } = watch({ secrets: ["sk-worker"] });
    const { mask } = telemetry;
    expect(mask("bad key sk-worker")).toBe("bad key ***");
    telemetry.log.event("warn", "x", { reason: "bad key sk-worker at http://u:p@h" });
    expect(lines[0]?.reason).toBe("bad key *** at http://***@h");
  });
});

describe("a tail that outlives its response", () => {
  test("delays the spans, not the log line, and then tells its own end", async () => {
    const { telemetry, clock, lines, spans } = watch(COLLECTOR);
    const record = serve(telemetry);
    telemetry.drainOpened(record);
    telemetry.done(record);
    await telemetry.flush();
    expect(spans).toEqual([]);
    expect(lines).toMatchObject([{ event: "request", prefill_open: true }]);
    clock.time = 2000;
    record.prefillDoneAt = record.tailEndedAt = 2000;
    telemetry.drainClosed(record);
    await telemetry.flush();
    expect(spans.map((span) => span.name)).toEqual(["POST /v1/chat/completions", "prefill", "decode", "drain"]);
    expect(lines[1]).toMatchObject({ event: "prefill_tail_ended", prefill_ms: 998, outlived_ms: 500 });
    expect(sampleOf(telemetry.metrics.render(), METRIC.drainsOpen)).toBe(0);
  });

  test("may be opened after the end was told: the spans still leave once, and whole", async () => {
    for (const flushBetween of [true, false]) {
      const { telemetry, spans } = watch(COLLECTOR);
      const record = serve(telemetry);
      telemetry.done(record);
      telemetry.drainOpened(record);
      if (flushBetween) await telemetry.flush();
      expect(spans).toEqual([]);
      record.prefillDoneAt = record.tailEndedAt = 1800;
      telemetry.drainClosed(record);
      await telemetry.flush();
      await telemetry.flush();
      expect(spans.map((span) => span.name)).toEqual(["POST /v1/chat/completions", "prefill", "decode", "drain"]);
    }
  });

  test("of a split request: the last of several tails lets the spans go", async () => {
    const { telemetry, spans } = watch(COLLECTOR);
    const record = serve(telemetry);
    telemetry.drainOpened(record);
    telemetry.drainOpened(record);
    telemetry.done(record);
    record.tailEndedAt = 1600;
    telemetry.drainClosed(record);
    await telemetry.flush();
    expect(spans).toEqual([]);
    record.tailEndedAt = 1700;
    telemetry.drainClosed(record, true);
    await telemetry.flush();
    expect(spans.filter((span) => span.name === "drain")).toHaveLength(1);
    const page = telemetry.metrics.render();
    expect([
      sampleOf(page, METRIC.drainsOpened),
      sampleOf(page, METRIC.drainsCut),
      sampleOf(page, METRIC.drainsOpen),
    ]).toEqual([2, 1, 0]);
  });

  test("that ended before the response changes nothing at its end", async () => {
    const { telemetry, lines, spans } = watch(COLLECTOR);
    const record = serve(telemetry);
    telemetry.drainOpened(record);
    record.prefillDoneAt = record.tailEndedAt = 1100;
    telemetry.drainClosed(record);
    telemetry.done(record);
    await telemetry.flush();
    expect(spans.map((span) => span.name)).toEqual(["POST /v1/chat/completions", "prefill", "decode"]);
    expect(lines).toHaveLength(1);
  });
});

describe("sampling", () => {
  test("the client's sampled bit decides; a trace that begins here is sampled", async () => {
    const { telemetry, spans } = watch(COLLECTOR);
    const off = serve(telemetry, { traceparent: `00-${TRACE}-${SPAN}-00` });
    expect(telemetry.newLegSpan(off)).toBe("");
    telemetry.done(off);
    await telemetry.flush();
    expect(spans).toEqual([]);
    const on = serve(telemetry, { traceparent: `00-${TRACE}-${SPAN}-01` });
    on.prefillSpanId = telemetry.newLegSpan(on);
    telemetry.done(on);
    telemetry.done(serve(telemetry));
    await telemetry.flush();
    expect(spans.map((span) => span.traceId === TRACE)).toEqual([true, true, true, false, false, false]);
    expect(spans[1]?.spanId).toBe(on.prefillSpanId);
    expect(sampleOf(telemetry.metrics.render(), METRIC.spansExported)).toBe(6);
  });

  test("without a collector no leg has a span of ours, and nothing is sent", async () => {
    const { telemetry, clock, spans } = watch();
    const record = serve(telemetry);
    expect(telemetry.newLegSpan(record)).toBe("");
    telemetry.done(record);
    await telemetry.flush();
    expect(spans).toEqual([]);
    expect(clock.waiting).toBe(0);
  });

  test("a collector that fails is one warning in the log, and the request never knows", async () => {
    const lines: string[] = [];
    const telemetry = createTelemetry(
      { models: [], log: { level: "info", prompts: false }, ...COLLECTOR },
      {
        clock: new ManualClock(),
        wallNow: () => WALL,
        sink: (line) => lines.push(line),
        fetch: () => Promise.reject(new TypeError("fetch failed")),
        secrets: [],
        version: "1",
      },
    );
    for (let i = 0; i < 2; i++) {
      telemetry.done(serve(telemetry));
      await telemetry.flush();
    }
    expect(lines.filter((line) => line.includes('"span_export_failing"'))).toHaveLength(1);
    expect(sampleOf(telemetry.metrics.render(), METRIC.spansDropped)).toBe(6);
  });
});

describe("recent requests", () => {
  test("the ring keeps the newest, newest first, and no more than it has room for", () => {
    const recent = new Recent(3);
    const records = Array.from({ length: 5 }, () => createRecord(0, 0));
    for (const record of records) recent.add(record);
    expect(recent.runningCount).toBe(5);
    expect(recent.finished()).toEqual([]);
    for (const record of records) recent.finish(record);
    expect(recent.finished().map((record) => records.indexOf(record))).toEqual([4, 3, 2]);
    expect(recent.runningCount).toBe(0);
  });
});
