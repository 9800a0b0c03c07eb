import { describe, expect, test } from "bun:test";
import { createRecord } from "../../src/telemetry/record.ts";
import { serverTiming } from "../../src/telemetry/server-timing.ts";
import { streamedRecord } from "./hand-made.ts";

describe("Server-Timing", () => {
  test("tells the parts of a buffered answer in milliseconds, and no worker", () => {
    const record = streamedRecord({ streaming: false, finishedAt: 0, decodeSentAt: 1104.126 });
    const value = serverTiming(record, 1574);
    expect(value).toBe("queue;dur=1, prefill;dur=100, handoff;dur=2.13, decode;dur=469.87, total;dur=574");
    expect(value).not.toContain("p0");
  });

  test("leaves out what did not happen, and a hand-off that was known ahead", () => {
    const aggregated = { prefillSentAt: 0, prefillDoneAt: 0, decodeSentAt: 1002 };
    expect(serverTiming(streamedRecord(aggregated), 0)).toBe("queue;dur=1, decode;dur=572, total;dur=574");
    const concurrent = serverTiming(streamedRecord({ decodeSentAt: 1002 }), 0);
    expect(concurrent).not.toContain("handoff");
    expect(concurrent).toContain("prefill;dur=100");
  });

  test("of a request that has only begun is its age", () => {
    expect(serverTiming(createRecord(0, 0), 12)).toBe("total;dur=12");
    expect(serverTiming(createRecord(0, 0), 0)).toBe("");
  });
});
