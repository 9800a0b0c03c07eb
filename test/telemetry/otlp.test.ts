import { describe, expect, test } from "bun:test";
import { type ExportFetch, SpanExporter, type SpanExporterOptions } from "../../src/telemetry/otlp.ts";
import { type OtlpSpan, spanCount, spansOf } from "../../src/telemetry/spans.ts";
import { ManualClock, SPAN, streamedRecord, TRACE, WALL } from "./hand-made.ts";

interface Sent {
  url: string;
  init: RequestInit;
  spans: OtlpSpan[];
}

interface Payload {
  resourceSpans: { resource: unknown; scopeSpans: { scope: unknown; spans: OtlpSpan[] }[] }[];
}

function collector(answer: () => Response | Promise<Response> = () => new Response("{}")) {
  const sent: Sent[] = [];
  const fetch: ExportFetch = async (url, init) => {
    const payload = JSON.parse(String(init.body)) as Payload;
    sent.push({ url, init, spans: payload.resourceSpans[0]!.scopeSpans[0]!.spans });
    return answer();
  };
  return { sent, fetch };
}

function makeExporter(options: Partial<SpanExporterOptions> & Pick<SpanExporterOptions, "fetch">) {
  const clock = new ManualClock();
  const changes: string[] = [];
  const exporter = new SpanExporter({
    url: "http://127.0.0.1:4318/",
    clock,
    version: "1.2.3",
    onChange: (state, reason) => changes.push(`${state} ${reason}`),
    ...options,
  });
  return { clock, exporter, changes };
}

const nanos = (milliseconds: number): string => `${BigInt(WALL) * 1_000_000n + BigInt(Math.round(milliseconds * 1e6))}`;

describe("spans of a record", () => {
  test("are the request, its legs and the hand-off between them, in one trace", () => {
    const spans = spansOf(
      streamedRecord({
        parentSpanId: "b7ad6b7169203331",
        prefillSpanId: "1111111111111111",
        decodeSpanId: "2222222222222222",
        traceState: "rojo=1",
      }),
    );
    expect(spans.map((span) => [span.name, span.spanId, span.parentSpanId, span.kind])).toEqual([
      ["POST /v1/chat/completions", SPAN, "b7ad6b7169203331", 2],
      ["prefill", "1111111111111111", SPAN, 3],
      ["handoff", expect.stringMatching(/^[0-9a-f]{16}$/), SPAN, 1],
      ["decode", "2222222222222222", SPAN, 3],
    ]);
    expect(spans.map((span) => [span.startTimeUnixNano, span.endTimeUnixNano])).toEqual([
      [nanos(0), nanos(574)],
      [nanos(2), nanos(102)],
      [nanos(102), nanos(104)],
      [nanos(104), nanos(574)],
    ]);
    expect(spans.every((span) => span.traceId === TRACE)).toBe(true);
    expect(spans[0]?.traceState).toBe("rojo=1");
    expect(spans[0]?.attributes).toContainEqual({ key: "http.response.status_code", value: { intValue: "200" } });
    expect(spans[0]?.attributes).toContainEqual({ key: "router.time_to_first_token", value: { doubleValue: 0.124 } });
    expect(spans[3]?.attributes).toContainEqual({ key: "router.worker", value: { stringValue: "d0" } });
  });

  test("have a drain where the tail outlived the response, and the prefill leg's true end", () => {
    const spans = spansOf(streamedRecord({ decodeSentAt: 1002, prefillDoneAt: 2000, tailEndedAt: 2000 }));
    expect(spans.map((span) => span.name)).toEqual(["POST /v1/chat/completions", "prefill", "decode", "drain"]);
    expect(spans[3]).toMatchObject({ startTimeUnixNano: nanos(574), endTimeUnixNano: nanos(1000) });
    expect(spans[1]?.endTimeUnixNano).toBe(nanos(1000));
  });

  test("say who failed: a server's fault is an error, a client's is not", () => {
    const decode = spansOf(
      streamedRecord({ status: 502, outcome: "decode_failed", code: "decode_failed", stage: "decode" }),
    );
    expect(decode.map((span) => span.status.code)).toEqual([2, 0, 0, 2]);
    expect(decode[0]?.status.message).toBe("decode_failed");
    const late = spansOf(streamedRecord({ lateFailure: "cut", lateFailureWhen: "streaming" }));
    expect(late.map((span) => span.status.code)).toEqual([0, 2, 0, 0]);
    const refused = spansOf(
      streamedRecord({
        prefillSentAt: 0,
        prefillDoneAt: 0,
        decodeSentAt: 0,
        status: 429,
        code: "rate_limited",
        stage: "router",
      }),
    );
    expect(refused.map((span) => [span.name, span.status.code])).toEqual([["POST /v1/chat/completions", 0]]);
  });

  test("hold ids and names only: no prompt, no address", () => {
    expect(JSON.stringify(spansOf(streamedRecord({ clientKey: "team-a" })))).not.toMatch(/https?:|team-a/);
  });

  test("are as many as is counted without making them", () => {
    for (const prefillSentAt of [0, 1002]) {
      for (const prefillDoneAt of [0, 1102]) {
        for (const decodeSentAt of [0, 1050, 1104]) {
          for (const tailEndedAt of [0, 1102, 1600]) {
            const record = streamedRecord({ prefillSentAt, prefillDoneAt, decodeSentAt, tailEndedAt });
            expect(spanCount(record)).toBe(spansOf(record).length);
          }
        }
      }
    }
  });
});

describe("exporting", () => {
  test("waits for company, then sends one batch when its time has come", async () => {
    const { sent, fetch } = collector();
    const { clock, exporter } = makeExporter({ fetch });
    exporter.enqueue(streamedRecord());
    exporter.enqueue(streamedRecord());
    clock.advance(1999);
    expect(sent).toHaveLength(0);
    clock.advance(1);
    await exporter.flush();
    expect(sent).toHaveLength(1);
    expect(sent[0]?.spans).toHaveLength(8);
    expect(sent[0]?.url).toBe("http://127.0.0.1:4318/v1/traces");
    expect(sent[0]?.init).toMatchObject({ method: "POST", headers: { "content-type": "application/json" } });
    expect(exporter.exported).toBe(8);
    expect(clock.waiting).toBe(0);
  });

  test("a full batch goes at the clock's next tick, not in the request's own", async () => {
    const { sent, fetch } = collector();
    const { clock, exporter } = makeExporter({ fetch, batch: 2 });
    for (let i = 0; i < 3; i++) exporter.enqueue(streamedRecord());
    expect(sent).toHaveLength(0);
    clock.advance(0);
    await exporter.flush();
    expect(sent.map(({ spans }) => spans.length)).toEqual([8, 4]);
  });

  test("a queue that is full drops new spans and counts them", async () => {
    const { sent, fetch } = collector();
    const { exporter } = makeExporter({ fetch, queue: 2 });
    for (let i = 0; i < 5; i++) exporter.enqueue(streamedRecord());
    expect(exporter.dropped).toBe(12);
    await exporter.flush();
    expect(sent.flatMap(({ spans }) => spans)).toHaveLength(8);
  });

  test.each([
    ["refuses", () => new Response("no", { status: 503 }), "503"],
    ["redirects", () => new Response(null, { status: 302, headers: { location: "http://elsewhere/" } }), "302"],
    ["is gone", () => Promise.reject(new TypeError("fetch failed")), "TypeError"],
  ] as const)("a collector that %s costs spans and nothing else, and is told of once", async (_, answer, reason) => {
    const { fetch } = collector(answer);
    const { exporter, changes } = makeExporter({ fetch });
    for (let i = 0; i < 3; i++) {
      exporter.enqueue(streamedRecord());
      await exporter.flush();
    }
    expect(exporter.exported).toBe(0);
    expect(exporter.dropped).toBe(12);
    expect(changes).toEqual([`failing ${reason}`]);
  });

  test("a collector that works again is told of", async () => {
    let up = false;
    const { fetch } = collector(() => new Response("", { status: up ? 200 : 500 }));
    const { exporter, changes } = makeExporter({ fetch });
    for (up of [false, true, true]) {
      exporter.enqueue(streamedRecord());
      await exporter.flush();
    }
    expect(changes).toEqual(["failing 500", "working 200"]);
    expect(exporter.exported).toBe(8);
  });

  test("spans a collector rejects inside its 200 are counted as lost", async () => {
    const { fetch } = collector(() =>
      Response.json({ partialSuccess: { rejectedSpans: "3", errorMessage: "too old" } }),
    );
    const { exporter } = makeExporter({ fetch });
    exporter.enqueue(streamedRecord());
    await exporter.flush();
    expect([exporter.exported, exporter.dropped]).toEqual([1, 3]);
  });

  test("a collector that never answers is given up after its time, and one export runs at a time", async () => {
    let calls = 0;
    const fetch: ExportFetch = (_url, init) => {
      calls++;
      return new Promise((_resolve, reject) => {
        init.signal?.addEventListener("abort", () => reject(init.signal?.reason), { once: true });
      });
    };
    const { clock, exporter, changes } = makeExporter({ fetch });
    exporter.enqueue(streamedRecord());
    const first = exporter.flush();
    exporter.enqueue(streamedRecord());
    const second = exporter.flush();
    expect(second).toBe(first);
    expect(calls).toBe(1);
    clock.advance(10_000);
    while (calls < 2) await Promise.resolve();
    clock.advance(10_000);
    await second;
    expect(exporter.dropped).toBe(8);
    expect(changes).toEqual(["failing TimeoutError"]);
    expect(clock.waiting).toBe(0);
  });

  test("what is enqueued while an export runs is not forgotten", async () => {
    const gate = Promise.withResolvers<Response>();
    const { sent, fetch } = collector(() => gate.promise);
    const { clock, exporter } = makeExporter({ fetch });
    exporter.enqueue(streamedRecord());
    const running = exporter.flush();
    exporter.enqueue(streamedRecord());
    gate.resolve(new Response("{}"));
    await running;
    clock.advance(2000);
    await exporter.flush();
    expect(sent.flatMap(({ spans }) => spans)).toHaveLength(8);
  });

  test("nothing waiting is nothing sent", async () => {
    const { sent, fetch } = collector();
    await makeExporter({ fetch }).exporter.flush();
    expect(sent).toHaveLength(0);
  });
});
