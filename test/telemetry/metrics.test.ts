import { describe, expect, test } from "bun:test";
import type { FleetSnapshot } from "../../src/telemetry/fleet.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { METRIC } from "../../src/telemetry/names.ts";
import type { RequestRecord } from "../../src/telemetry/record.ts";
import { readExposition, sampleOf, streamedRecord, WALL } from "./hand-made.ts";

function makeMetrics(): Metrics {
  return new Metrics({
    models: ["demo-model", "other-model"],
    version: "1.2.3",
    startedAt: WALL,
    inProgress: () => 7,
    spans: () => ({ exported: 5, dropped: 3 }),
  });
}

function pageAfter(...records: RequestRecord[]): string {
  const metrics = makeMetrics();
  for (const record of records) metrics.requestDone(record);
  return metrics.render();
}

describe("a finished request", () => {
  test("is counted by model, route, streaming and outcome", () => {
    const page = pageAfter(
      streamedRecord(),
      streamedRecord(),
      streamedRecord({ streaming: false }),
      streamedRecord({ route: "/v1/messages", model: "other-model", outcome: "timeout", status: 504 }),
    );
    const chat = { model: "demo-model", route: "/v1/chat/completions", outcome: "success" };
    expect(sampleOf(page, METRIC.requests, { ...chat, streaming: "true" })).toBe(2);
    expect(sampleOf(page, METRIC.requests, { ...chat, streaming: "false" })).toBe(1);
    const messages = { model: "other-model", route: "/v1/messages", streaming: "true", outcome: "timeout" };
    expect(sampleOf(page, METRIC.requests, messages)).toBe(1);
    expect(sampleOf(page, METRIC.requests)).toBe(4);
  });

  test("falls into its status class, and a client that left into 499 whatever had been sent", () => {
    const page = pageAfter(
      streamedRecord(),
      streamedRecord({ outcome: "client_cancel", status: 200 }),
      streamedRecord({ outcome: "rejected", status: 404 }),
      streamedRecord({ outcome: "prefill_failed", status: 302 }),
      streamedRecord({ outcome: "prefill_failed", status: 502 }),
      streamedRecord({ outcome: "decode_failed", status: 599 }),
      streamedRecord({ outcome: "client_cancel", status: 0 }),
    );
    const classes = ["2xx", "3xx", "4xx", "499", "5xx", "none"].map((status) =>
      sampleOf(page, METRIC.responses, { status }),
    );
    expect(classes).toEqual([1, 1, 1, 2, 2, 0]);
  });

  test("tells its times in seconds, one observation each", () => {
    const page = pageAfter(streamedRecord());
    const seconds = (name: string): [number, number] => [
      sampleOf(page, `${name}_count`),
      sampleOf(page, `${name}_sum`),
    ];
    expect(seconds(METRIC.timeToFirstToken)).toEqual([1, 0.124]);
    expect(seconds(METRIC.interTokenLatency)).toEqual([1, 0.05]);
    expect(seconds(METRIC.timePerOutputToken)).toEqual([1, 0.025]);
    expect(seconds(METRIC.duration)).toEqual([1, 0.574]);
    expect(seconds(METRIC.queueTime)).toEqual([1, 0.001]);
    expect(seconds(METRIC.prefillTime)).toEqual([1, 0.1]);
    expect(seconds(METRIC.handoffGap)).toEqual([1, 0.002]);
    expect(seconds(METRIC.decodeFirstToken)).toEqual([1, 0.02]);
    const labels = { model: "demo-model", path: "disaggregated" };
    expect(sampleOf(page, `${METRIC.timeToFirstToken}_count`, labels)).toBe(1);
  });

  test("does not blame decode's pace for the wait on the prefill tail", () => {
    const page = pageAfter(streamedRecord({ settleWaitMs: 90 }));
    expect(sampleOf(page, `${METRIC.interTokenLatency}_sum`)).toBeCloseTo(0.04, 9);
  });

  test("has no hand-off gap where both legs were sent at once", () => {
    const page = pageAfter(streamedRecord({ decodeSentAt: 1002 }));
    expect(sampleOf(page, `${METRIC.handoffGap}_count`)).toBe(0);
    expect(sampleOf(page, `${METRIC.prefillTime}_count`)).toBe(1);
  });

  test("observes no first token when there was none, and no pace when it failed or was one block", () => {
    const page = pageAfter(
      streamedRecord({ committedAt: 0, outcome: "prefill_failed", status: 502 }),
      streamedRecord({ outcome: "decode_failed" }),
      streamedRecord({ chunks: 1, completionTokens: 1 }),
      streamedRecord({ streaming: false }),
    );
    expect(sampleOf(page, `${METRIC.timeToFirstToken}_count`)).toBe(2);
    expect(sampleOf(page, `${METRIC.interTokenLatency}_count`)).toBe(0);
    expect(sampleOf(page, `${METRIC.timePerOutputToken}_count`)).toBe(0);
  });

  test("adds its tokens, bytes and path", () => {
    const page = pageAfter(streamedRecord(), streamedRecord({ path: "decode-only", cachedTokens: 0 }));
    expect(sampleOf(page, METRIC.promptTokens, { model: "demo-model" })).toBe(240);
    expect(sampleOf(page, METRIC.cachedTokens)).toBe(64);
    expect(sampleOf(page, METRIC.completionTokens)).toBe(38);
    expect(sampleOf(page, METRIC.requestBytes)).toBe(1000);
    expect(sampleOf(page, METRIC.responseBytes)).toBe(4000);
    expect(sampleOf(page, METRIC.routed, { path: "decode-only" })).toBe(1);
    expect(sampleOf(page, METRIC.routed, { path: "disaggregated" })).toBe(1);
  });

  test("a refused one is counted by code once, and has no latency", () => {
    const page = pageAfter(
      streamedRecord({
        path: "",
        outcome: "rejected",
        code: "rate_limited",
        stage: "router",
        status: 429,
        admittedAt: 0,
      }),
    );
    expect(sampleOf(page, METRIC.rejected, { code: "rate_limited" })).toBe(1);
    expect(sampleOf(page, METRIC.rejected)).toBe(1);
    expect(sampleOf(page, METRIC.errors, { code: "rate_limited", stage: "router" })).toBe(1);
    expect(sampleOf(page, `${METRIC.duration}_count`)).toBe(0);
    expect(sampleOf(page, METRIC.routed)).toBe(0);
  });
});

describe("no client can make a metric", () => {
  test("unknown models, routes, reasons and policies all land on what is there already", () => {
    const metrics = makeMetrics();
    const unknown = (i: number): void => {
      const outcome = { outcome: "rejected", status: 404, code: "model_not_found", stage: "router", path: "" } as const;
      metrics.requestDone(streamedRecord({ model: `scan-model-${i}`, route: `/scan/path/${i}`, ...outcome }));
      metrics.policyChoice(`scan-${i}`, "prefill", "other");
    };
    for (let i = 0; i < 20; i++) unknown(i);
    const before = metrics.render();
    for (let i = 0; i < 5000; i++) unknown(i);
    const after = metrics.render();
    expect(after.length - before.length).toBeLessThan(64);
    expect(after).not.toContain("scan");
    expect(sampleOf(after, METRIC.requests, { model: "other", route: "other", outcome: "rejected" })).toBe(5020);
  });

  test("reasons that are not literals after all stop at the room they have", () => {
    const metrics = makeMetrics();
    for (let i = 0; i < 500; i++) {
      metrics.policyChoice("prefix-aware", "prefill", `reason-${i}`);
      metrics.retry(`reason-${i}`, "decode");
    }
    const { samples } = readExposition(metrics.render());
    expect(samples.filter((sample) => sample.name === METRIC.policyChoices).length).toBeLessThan(40);
    expect(samples.filter((sample) => sample.name === METRIC.retries).length).toBeLessThan(40);
    expect(sampleOf(metrics.render(), METRIC.retries)).toBe(500);
  });
});

describe("events off the record", () => {
  test("each is counted where it belongs", () => {
    const metrics = makeMetrics();
    metrics.retry("reset", "prefill");
    metrics.retry("reset", "prefill");
    metrics.retry("status", "decode");
    metrics.breakerChange("p0", "open");
    metrics.breakerChange("p0", "half-open");
    metrics.probe("p0", "timeout");
    metrics.handoffReleased();
    metrics.lateFailure("cut", "after_end");
    metrics.lateFailure("content", "streaming");
    metrics.settleWait(250);
    metrics.completedByRouter("silence");
    metrics.droppedAfterFinish();
    expect(metrics.render()).not.toContain(`\n${METRIC.storeReached} `);
    for (const well of [true, false, false]) metrics.storeExchange(well);
    metrics.policyChoice("prefix-aware", "prefill", "prefix");
    metrics.prefixHit(512);
    metrics.rejected("not_found");
    const page = metrics.render();
    expect(sampleOf(page, METRIC.retries, { reason: "reset", stage: "prefill" })).toBe(2);
    expect(sampleOf(page, METRIC.retries, { reason: "status", stage: "decode" })).toBe(1);
    expect(sampleOf(page, METRIC.breakerChanges, { worker: "p0", state: "open" })).toBe(1);
    expect(sampleOf(page, METRIC.breakerChanges, { worker: "p0", state: "half-open" })).toBe(1);
    expect(sampleOf(page, METRIC.probes, { worker: "p0", result: "timeout" })).toBe(1);
    expect(sampleOf(page, METRIC.handoffsReleased)).toBe(1);
    expect(sampleOf(page, METRIC.lateFailures, { kind: "cut", when: "after_end" })).toBe(1);
    expect(sampleOf(page, METRIC.lateFailures, { kind: "content", when: "streaming" })).toBe(1);
    expect(sampleOf(page, `${METRIC.settleWait}_sum`)).toBe(0.25);
    expect(sampleOf(page, METRIC.completedByRouter, { reason: "silence" })).toBe(1);
    expect(sampleOf(page, METRIC.droppedAfterFinish)).toBe(1);
    expect(sampleOf(page, METRIC.storeExchanges, { result: "ok" })).toBe(1);
    expect(sampleOf(page, METRIC.storeExchanges, { result: "failed" })).toBe(2);
    expect(sampleOf(page, METRIC.storeReached)).toBe(0);
    const choice = { policy: "prefix-aware", role: "prefill", reason: "prefix" };
    expect(sampleOf(page, METRIC.policyChoices, choice)).toBe(1);
    expect(sampleOf(page, METRIC.prefixHits)).toBe(1);
    expect(sampleOf(page, METRIC.prefixHitTokens)).toBe(512);
    expect(sampleOf(page, METRIC.rejected, { code: "not_found" })).toBe(1);
  });

  test("what a record says of an event is not counted again at its end", () => {
    const page = pageAfter(
      streamedRecord({
        lateFailure: "cut",
        lateFailureWhen: "streaming",
        settleWaitMs: 5,
        handoffReleased: true,
      }),
    );
    for (const name of [METRIC.lateFailures, METRIC.handoffsReleased, `${METRIC.settleWait}_count`]) {
      expect(sampleOf(page, name)).toBe(0);
    }
  });

  test("a stream that an error frame has ended is counted at its end", () => {
    expect(sampleOf(pageAfter(streamedRecord({ errorFrame: true })), METRIC.errorFrames)).toBe(1);
    expect(sampleOf(pageAfter(streamedRecord()), METRIC.errorFrames)).toBe(0);
  });

  test("a tail is open until it is closed, and tells prefill's time once though it ended after the response", () => {
    const metrics = makeMetrics();
    const record = streamedRecord({ prefillDoneAt: 0 });
    metrics.drainOpened();
    metrics.requestDone(record);
    let page = metrics.render();
    expect(sampleOf(page, METRIC.drainsOpen)).toBe(1);
    expect(sampleOf(page, `${METRIC.prefillTime}_count`)).toBe(0);
    record.prefillDoneAt = 2002;
    record.tailEndedAt = 2074;
    metrics.drainClosed(record);
    metrics.drainCut();
    page = metrics.render();
    expect(sampleOf(page, METRIC.drainsOpen)).toBe(0);
    expect(sampleOf(page, METRIC.drainsOpened)).toBe(1);
    expect(sampleOf(page, METRIC.drainsCut)).toBe(1);
    expect(sampleOf(page, `${METRIC.prefillTime}_sum`)).toBe(1);
    expect(sampleOf(page, `${METRIC.tailOutlived}_sum`)).toBe(0.5);
  });

  test("a tail that ended well before the response, but is closed after it, tells prefill's time once", () => {
    const metrics = makeMetrics();
    const record = streamedRecord({ tailEndedAt: 1102 });
    metrics.drainOpened();
    metrics.requestDone(record);
    metrics.drainClosed(record);
    const page = metrics.render();
    expect(sampleOf(page, `${METRIC.prefillTime}_count`)).toBe(1);
    expect(sampleOf(page, `${METRIC.tailOutlived}_count`)).toBe(0);
  });

  test("a tail that ended before the response leaves prefill's time to the request's end", () => {
    const metrics = makeMetrics();
    const record = streamedRecord({ finishedAt: 0, tailEndedAt: 1102 });
    metrics.drainOpened();
    metrics.drainClosed(record);
    record.finishedAt = 1574;
    metrics.requestDone(record);
    const page = metrics.render();
    expect(sampleOf(page, `${METRIC.prefillTime}_count`)).toBe(1);
    expect(sampleOf(page, `${METRIC.tailOutlived}_count`)).toBe(0);
  });
});

describe("the page", () => {
  const fleet: FleetSnapshot = {
    workers: [
      {
        name: "p0",
        role: "prefill",
        pool: "default",
        inFlight: 3,
        queuedTokens: 900,
        healthy: true,
        breaker: "closed",
        draining: false,
      },
      {
        name: "d0",
        role: "decode",
        pool: "default",
        inFlight: 0,
        queuedTokens: 0,
        healthy: false,
        breaker: "open",
        draining: true,
      },
    ],
    queueLength: 4,
  };

  test("shows the fleet as it is at the moment of the scrape, asked once", () => {
    const metrics = makeMetrics();
    let asked = 0;
    metrics.observeFleet(() => {
      asked++;
      return fleet;
    });
    const page = metrics.render();
    expect(asked).toBe(1);
    expect(sampleOf(page, METRIC.workerInFlight, { worker: "p0", role: "prefill", pool: "default" })).toBe(3);
    expect(sampleOf(page, METRIC.workerQueuedTokens, { worker: "p0" })).toBe(900);
    expect(sampleOf(page, METRIC.workerHealthy, { worker: "p0" })).toBe(1);
    expect(sampleOf(page, METRIC.workerHealthy, { worker: "d0" })).toBe(0);
    expect(sampleOf(page, METRIC.workerBreakerState, { worker: "d0" })).toBe(2);
    expect(sampleOf(page, METRIC.workerDraining, { worker: "d0" })).toBe(1);
    expect(sampleOf(page, METRIC.queueLength)).toBe(4);
    expect(sampleOf(page, METRIC.requestsInProgress)).toBe(7);
    expect(sampleOf(page, METRIC.spansExported)).toBe(5);
    expect(sampleOf(page, METRIC.spansDropped)).toBe(3);
    expect(sampleOf(page, METRIC.startTime)).toBe(WALL / 1000);
    expect(sampleOf(page, METRIC.buildInfo, { version: "1.2.3" })).toBe(1);
  });

  test("forgets the counters of workers that have left the fleet", () => {
    const metrics = makeMetrics();
    metrics.observeFleet(() => fleet);
    for (let i = 0; i < 1000; i++) metrics.probe(`pod-${i}`, "ok");
    metrics.probe("p0", "ok");
    const page = metrics.render();
    expect(page).not.toContain("pod-");
    expect(sampleOf(page, METRIC.probes, { worker: "p0" })).toBe(1);
  });

  test("can be read by a scraper and has exactly the families of names.ts", () => {
    const metrics = makeMetrics();
    metrics.observeFleet(() => fleet);
    metrics.requestDone(streamedRecord());
    const { types } = readExposition(metrics.render());
    expect([...types.keys()].sort()).toEqual(Object.values(METRIC).sort());
    for (const [name, type] of types) {
      expect(name).toMatch(/^prefill_router_[a-z_]+$/);
      expect(name.endsWith("_total")).toBe(type === "counter");
      if (type === "histogram") expect(name).toEndWith("_seconds");
    }
  });
});
