/**
 * What finishing one request costs in metrics and log, in nanoseconds of this machine. Run: `bun bench/telemetry.ts`.
 * The budget of both together is 2 µs a request.
 */
import { BatchedSink } from "../src/telemetry/batched-sink.ts";
import { Log } from "../src/telemetry/log.ts";
import { createMask } from "../src/telemetry/mask.ts";
import { Metrics } from "../src/telemetry/metrics.ts";
import { createRecord, type RequestRecord } from "../src/telemetry/record.ts";
import { createTelemetry } from "../src/telemetry/telemetry.ts";
import { beginTrace } from "../src/telemetry/trace-context.ts";

const ROUNDS = 7;
const CALLS = 100_000;
const clock = { now: () => performance.now(), after: () => () => undefined };

function finished(i: number): RequestRecord {
  const record = createRecord(1000 + i * 0.37, Date.now());
  fill(record, i);
  return record;
}

function fill(record: RequestRecord, i: number): void {
  record.id = `req-${1_000_000 + i}`;
  record.traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  record.spanId = "00f067aa0ba902b7";
  record.route = "/v1/chat/completions";
  record.model = "demo-model";
  record.streaming = true;
  record.clientKey = "team-a";
  record.pool = "default";
  record.path = "disaggregated";
  record.prefill = "default-prefill-0";
  record.decode = "default-decode-1";
  record.admittedAt = record.t0 + 0.04;
  record.prefillSentAt = record.t0 + 0.11;
  record.prefillDoneAt = record.t0 + 80.3 + (i % 50);
  record.decodeSentAt = record.prefillDoneAt + 0.2;
  record.decodeHeadersAt = record.decodeSentAt + 3.7;
  record.committedAt = record.decodeSentAt + 14.9;
  record.finishedAt = record.committedAt + 2500.51 + i * 0.013;
  record.status = 200;
  record.outcome = "success";
  record.attempts = 1;
  record.promptTokens = 1234;
  record.cachedTokens = 1024;
  record.completionTokens = 200;
  record.bytesIn = 6400;
  record.bytesOut = 48_211;
  record.chunks = 202;
}

function measure(name: string, call: (i: number) => void): void {
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    for (let i = 0; i < CALLS; i++) call(i);
    rounds.push(((performance.now() - start) * 1e6) / CALLS);
  }
  rounds.sort((a, b) => a - b);
  console.log(`${name.padEnd(52)} ${rounds[rounds.length >> 1]!.toFixed(0).padStart(6)} ns`);
}

const records = Array.from({ length: 1024 }, (_, i) => finished(i));
const at = (i: number): RequestRecord => records[i & 1023]!;
let written = 0;
const sink = new BatchedSink((text) => {
  // Encoding is the least a real write does, and it flattens the gathered text.
  written += new TextEncoder().encode(text).length;
});
const metrics = new Metrics({
  models: ["demo-model", "other-model"],
  version: "bench",
  startedAt: Date.now(),
  inProgress: () => 0,
  spans: () => ({ exported: 0, dropped: 0 }),
});
const log = new Log(sink.push, { level: "info", prompts: false, wallNow: Date.now, mask: (text) => text });
const config = { models: ["demo-model"], log: { level: "info", prompts: false } } as const;
const telemetry = createTelemetry(config, { clock, wallNow: Date.now, sink: sink.push, secrets: [], version: "bench" });
const headers = new Headers({ "content-type": "application/json" });
const mask = createMask(["sk-0123456789abcdef", "sk-fedcba9876543210"]);
const message = "The model `x` does not exist, or you do not have access to it. ".repeat(3);

measure("Metrics.requestDone", (i) => {
  const record = at(i);
  record.prefillObserved = false;
  metrics.requestDone(record);
});
measure("Log.request with BatchedSink and encoding", (i) => log.request(at(i)));
const begun = createRecord(0, 0);
measure("beginTrace, new trace", () => beginTrace(begun, headers));
measure("newRecord + beginTrace + filling + done (all of it)", (i) => {
  const record = telemetry.newRecord();
  beginTrace(record, headers);
  fill(record, i);
  telemetry.done(record);
});
measure("mask without a find, 190 characters, 2 keys", () => {
  written += mask(message).length;
});
const start = performance.now();
const page = telemetry.metrics.render();
console.log(
  `render: ${page.length} characters in ${(performance.now() - start).toFixed(2)} ms; ${written > 0 ? "log written" : ""}`,
);
