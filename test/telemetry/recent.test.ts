import { expect, test } from "bun:test";
import { FleetChanges } from "../../src/telemetry/changes.ts";
import { failedAt } from "../../src/telemetry/failed.ts";
import { Minutes } from "../../src/telemetry/minutes.ts";
import { Recent } from "../../src/telemetry/recent.ts";
import { streamedRecord } from "./hand-made.ts";

test("what the client asked wrongly, and a client that left, is no failure", () => {
  expect(failedAt(streamedRecord())).toBeUndefined();
  expect(
    failedAt(streamedRecord({ status: 400, outcome: "rejected", code: "invalid_request", stage: "router" })),
  ).toBeUndefined();
  expect(failedAt(streamedRecord({ status: 429, outcome: "decode_failed", stage: "decode" }))).toBeUndefined();
  expect(failedAt(streamedRecord({ status: 499, outcome: "client_cancel" }))).toBeUndefined();
});

test("a failure is named by its stage, a tail that failed after the commit as late", () => {
  expect(failedAt(streamedRecord({ status: 502, outcome: "decode_failed", stage: "decode" }))).toBe("decode");
  expect(failedAt(streamedRecord({ errorFrame: true, outcome: "prefill_failed", stage: "prefill" }))).toBe("prefill");
  expect(failedAt(streamedRecord({ status: 503, outcome: "rejected", stage: "router" }))).toBe("router");
  expect(failedAt(streamedRecord({ lateFailure: "cut", errorFrame: true, stage: "prefill" }))).toBe("late");
});

test("failed requests are remembered when hundreds of good ones have come after them", () => {
  const recent = new Recent(4);
  const failed = streamedRecord({ status: 502, outcome: "decode_failed", stage: "decode" });
  recent.finish(failed);
  for (let i = 0; i < 1_000; i++) recent.finish(streamedRecord());
  expect(recent.finished()).not.toContain(failed);
  expect(recent.failed()).toEqual([failed]);
});

test("a tail that fails after the end makes its request a failed one, once", () => {
  const recent = new Recent();
  const record = streamedRecord({ prefillDoneAt: 0 });
  recent.finish(record);
  expect(recent.failed()).toEqual([]);
  Object.assign(record, { lateFailure: "reset", lateFailureWhen: "after_end", tailEndedAt: 2_000 });
  recent.tailEnded(record);
  recent.tailEnded(record);
  expect(recent.failed()).toEqual([record]);
  expect(recent.minutes.last(2_000).at(-1)).toEqual([1, 0, 0, 0, 0, 1]);
});

test("minutes are kept for an hour and begin anew after it", () => {
  const minutes = new Minutes();
  minutes.finished(30_000, "decode");
  minutes.finished(59_999, undefined);
  minutes.finished(60_000, undefined);
  expect(minutes.last(61_000).slice(-2)).toEqual([
    [2, 0, 0, 0, 1, 0],
    [1, 0, 0, 0, 0, 0],
  ]);
  expect(minutes.last(59 * 60_000)[0]).toEqual([2, 0, 0, 0, 1, 0]);
  expect(minutes.last(60 * 60_000)[0]).toEqual([1, 0, 0, 0, 0, 0]);
  minutes.finished(60 * 60_000, undefined);
  expect(minutes.last(60 * 60_000).at(-1)).toEqual([1, 0, 0, 0, 0, 0]);
  expect(
    minutes
      .last(200 * 60_000)
      .flat()
      .every((n) => n === 0),
  ).toBe(true);
});

test("since when a breaker is open does not move when its probes fail", () => {
  let now = 0;
  const changes = new FleetChanges(() => ++now);
  const w = { name: "w" };
  changes.add(w, "breaker open");
  changes.add(w, "breaker half-open");
  changes.add(w, "breaker open");
  expect(changes.breakerSince(w)).toBe(1);
  changes.add(w, "breaker closed");
  expect(changes.breakerSince(w)).toBeUndefined();
});

test("of changes the last fifty are kept, newest first", () => {
  const changes = new FleetChanges(() => 0);
  for (let i = 0; i < 60; i++) changes.add({ name: `w${i}` }, "unhealthy");
  expect(changes.last()).toHaveLength(50);
  expect(changes.last()[0]!.worker).toBe("w59");
});
