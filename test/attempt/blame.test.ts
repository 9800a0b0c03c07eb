import { describe, expect, test } from "bun:test";
import { blame, retryAfterMs, verdict } from "../../src/attempt/blame.ts";
import { Failure, type FaultKind } from "../../src/errors/failure.ts";
import type { Worker } from "../../src/workers/worker.ts";
import { makeWorker } from "../workers/fixtures.ts";

function failure(kind: FaultKind, status: number, headers: [string, string][] = []): Failure {
  return new Failure("decode_failed", { status, stage: "decode", kind, message: "x", headers });
}

describe("what a failure says about its worker", () => {
  const table: [FaultKind, number, string][] = [
    ["refused", 502, "failed"],
    ["reset", 502, "failed"],
    ["cut", 502, "failed"],
    ["connect", 502, "failed"],
    ["timeout", 504, "failed"],
    ["status", 500, "failed"],
    ["status", 502, "failed"],
    ["content", 502, "failed"],
    ["status", 408, "failed"],
    ["status", 429, "busy"],
    ["status", 503, "busy"],
    ["content", 503, "busy"],
    ["status", 400, "neutral"],
    ["status", 404, "neutral"],
    ["status", 422, "neutral"],
    ["content", 400, "neutral"],
  ];
  test("nothing, when it is the router's own", () => {
    const worker = new Proxy({} as Worker, { get: (_, name) => () => expect(name).toBe("not called") });
    blame(worker, new Failure("internal", { status: 500, stage: "router", message: "x" }), 0);
  });

  test.each(table)("%s with status %d: %s", (kind, status, expected) => {
    expect(verdict(failure(kind, status))).toBe(expected as ReturnType<typeof verdict>);
  });
});

test("a buffered answer that takes too long is no sign of a worker that hangs, where it has answered others meanwhile", () => {
  const timedOut = failure("timeout", 504);
  const counted = (since: number | undefined) => {
    const worker = makeWorker("d1");
    worker.answered(500);
    blame(worker, timedOut, 1_000, since);
    return worker.breaker.failures;
  };
  expect([counted(undefined), counted(400), counted(600)]).toEqual([1, 0, 1]);
});

test("Retry-After is read in seconds and as a date, and anything else is none", () => {
  const now = Date.parse("Mon, 30 Nov 2026 05:00:00 GMT");
  const read = (value: string) => retryAfterMs(failure("status", 503, [["retry-after", value]]), now);
  expect(read("3")).toBe(3_000);
  expect(read("0.5")).toBe(500);
  expect(read("-1")).toBe(0);
  expect(read("Mon, 30 Nov 2026 05:00:10 GMT")).toBe(10_000);
  expect(read("Mon, 30 Nov 2026 04:00:00 GMT")).toBe(0);
  expect(read("soon")).toBeUndefined();
  expect(retryAfterMs(failure("status", 503), now)).toBeUndefined();
});
