import { newSpanId } from "./ids.ts";
import type { RequestRecord } from "./record.ts";

/** One span in OTLP's JSON encoding (opentelemetry-proto trace.proto: ids in hex, 64-bit integers as decimal text). */
export interface OtlpSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  traceState?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: OtlpAttribute[];
  status: { code: number; message?: string };
}

export interface OtlpAttribute {
  key: string;
  value: { stringValue: string } | { intValue: string } | { doubleValue: number } | { boolValue: boolean };
}

const INTERNAL = 1;
const SERVER = 2;
const CLIENT = 3;
const UNSET = 0;
const ERROR = 2;

/**
 * The spans of a record whose response and tails have ended: the request; a span per leg of its last attempt; the hand-off between
 * them where prefill came first; and the drain, from the response's end to the tail's, where the tail outlived it.
 */
export function spansOf(record: RequestRecord): OtlpSpan[] {
  const spans = [requestSpan(record)];
  const end = record.finishedAt;
  if (record.prefillSentAt > 0) {
    const leg = child(
      record,
      "prefill",
      CLIENT,
      record.prefillSentAt,
      record.prefillDoneAt || record.tailEndedAt || end,
    );
    leg.spanId = record.prefillSpanId || leg.spanId;
    leg.attributes.push(...strings("router.worker", record.prefill));
    if (record.stage === "prefill" || record.lateFailure !== "") leg.status = { code: ERROR };
    leg.attributes.push(...strings("router.late_failure", record.lateFailure));
    spans.push(leg);
  }
  if (record.prefillDoneAt > 0 && record.decodeSentAt >= record.prefillDoneAt) {
    spans.push(child(record, "handoff", INTERNAL, record.prefillDoneAt, record.decodeSentAt));
  }
  if (record.decodeSentAt > 0) {
    const leg = child(record, "decode", CLIENT, record.decodeSentAt, end);
    leg.spanId = record.decodeSpanId || leg.spanId;
    leg.attributes.push(...strings("router.worker", record.decode));
    leg.attributes.push(...integers("router.chunks", record.chunks));
    if (record.stage === "decode") leg.status = { code: ERROR };
    spans.push(leg);
  }
  if (record.tailEndedAt > end) spans.push(child(record, "drain", INTERNAL, end, record.tailEndedAt));
  return spans;
}

/** How many spans `spansOf` would make, without making them. */
export function spanCount(record: RequestRecord): number {
  let count = 1;
  if (record.prefillSentAt > 0) count++;
  if (record.prefillDoneAt > 0 && record.decodeSentAt >= record.prefillDoneAt) count++;
  if (record.decodeSentAt > 0) count++;
  if (record.tailEndedAt > record.finishedAt) count++;
  return count;
}

function requestSpan(record: RequestRecord): OtlpSpan {
  const method = record.route.startsWith("/v1/models") ? "GET" : "POST";
  const attributes = [
    ...strings("http.request.method", method),
    ...strings("http.route", record.route),
    ...integers("http.response.status_code", record.status),
    ...strings("gen_ai.request.model", record.model),
    ...integers("gen_ai.usage.input_tokens", record.promptTokens),
    ...integers("gen_ai.usage.output_tokens", record.completionTokens),
    ...strings("error.type", record.code),
    ...strings("router.request_id", record.id),
    ...strings("router.outcome", record.outcome),
    ...strings("router.stage", record.stage),
    ...strings("router.path", record.path),
    ...strings("router.pool", record.pool),
    ...integers("router.attempts", record.attempts),
    ...integers("router.cached_tokens", record.cachedTokens),
  ];
  attributes.push({ key: "router.streaming", value: { boolValue: record.streaming } });
  if (record.committedAt > 0) {
    const seconds = (record.committedAt - record.t0) / 1000;
    attributes.push({ key: "router.time_to_first_token", value: { doubleValue: seconds } });
  }
  if (record.handoffReleased) attributes.push({ key: "router.handoff_released", value: { boolValue: true } });
  const span: OtlpSpan = {
    traceId: record.traceId,
    spanId: record.spanId,
    name: record.route === "" ? method : `${method} ${record.route}`,
    kind: SERVER,
    startTimeUnixNano: nanoseconds(record, record.t0),
    endTimeUnixNano: nanoseconds(record, record.finishedAt),
    attributes,
    // A client's own fault is no error of a server's span (OpenTelemetry's HTTP conventions).
    status: record.status >= 500 || record.errorFrame ? { code: ERROR, message: record.code } : { code: UNSET },
  };
  if (record.parentSpanId !== "") span.parentSpanId = record.parentSpanId;
  if (record.traceState !== "") span.traceState = record.traceState;
  return span;
}

function child(record: RequestRecord, name: string, kind: number, from: number, to: number): OtlpSpan {
  return {
    traceId: record.traceId,
    spanId: newSpanId(),
    parentSpanId: record.spanId,
    name,
    kind,
    startTimeUnixNano: nanoseconds(record, from),
    endTimeUnixNano: nanoseconds(record, Math.max(from, to)),
    attributes: [],
    status: { code: UNSET },
  };
}

function strings(key: string, value: string): OtlpAttribute[] {
  return value === "" ? [] : [{ key, value: { stringValue: value } }];
}

function integers(key: string, value: number): OtlpAttribute[] {
  return value === 0 ? [] : [{ key, value: { intValue: String(Math.round(value)) } }];
}

/** Monotonic milliseconds as nanoseconds since 1970. Microseconds of today fit a double exactly, nanoseconds do not. */
function nanoseconds(record: RequestRecord, at: number): string {
  return `${Math.round((record.startedAt + (at - record.t0)) * 1000)}000`;
}
