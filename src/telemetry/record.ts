import type { ErrorCode, FaultKind, Stage } from "../errors/failure.ts";

export type RouterPath = "disaggregated" | "aggregated" | "decode-only" | "prefill-only";

export type Outcome =
  | "success"
  | "client_cancel"
  | "prefill_failed"
  | "decode_failed"
  | "handoff_failed"
  | "timeout"
  | "rejected"
  | "shutdown"
  | "internal";

/**
 * One request's facts, written once each as the walk goes on and read at its end: it is the log line, the source of the metrics,
 * the dashboard's row and the spans. Plain fields only; times are monotonic milliseconds of the router's clock, 0 = did not happen.
 */
export interface RequestRecord {
  /** Client-visible id. */
  id: string;
  /** From `traceparent`, or made here: 32 and 16 hex digits. */
  traceId: string;
  /** The caller's span; "" when the trace begins here. */
  parentSpanId: string;
  /** This request's own span, and those of the legs of the last attempt ("" = no leg, or nobody would see the span). */
  spanId: string;
  prefillSpanId: string;
  decodeSpanId: string;
  /** The sampled bit of `traceparent`; of a trace that begins here always set. */
  sampled: boolean;
  /** As they came, when valid; "" = not sent to the engines. */
  traceState: string;
  baggage: string;
  route: string;
  /** Configured id, or "other". */
  model: string;
  streaming: boolean;
  clientKey: string;
  pool: string;
  path: RouterPath | "";
  prefill: string;
  decode: string;
  /** Wall-clock start, milliseconds since 1970. */
  startedAt: number;
  t0: number;
  admittedAt: number;
  prefillSentAt: number;
  prefillDoneAt: number;
  decodeSentAt: number;
  decodeHeadersAt: number;
  committedAt: number;
  finishedAt: number;
  /** End of the last prefill tail. A tail may outlive the response, so this may be written after `finishedAt`. */
  tailEndedAt: number;
  /** Prefill tails of this request that are still being read (split requests have several). Kept by telemetry. */
  openDrains: number;
  /** Told to telemetry as ended. A tail may be opened even after that. Kept by telemetry. */
  done: boolean;
  /** Waits in the exporter's queue. Kept by telemetry. */
  spansQueued: boolean;
  /** `prefillDoneAt` has gone into the histogram; it may come after the request's end. Kept by telemetry. */
  prefillObserved: boolean;
  status: number;
  outcome: Outcome | "";
  code: ErrorCode | "";
  stage: Stage | "";
  attempts: number;
  /** The router's guess from the prompt's length. */
  promptEstimate: number;
  /** These three as an engine told them; 0 = it did not. */
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  bytesIn: number;
  bytesOut: number;
  /** Whole blocks of decode's stream that went to the client. */
  chunks: number;
  errorFrame: boolean;
  /** A prefill tail that failed after decode had been committed: kind, and whether before or after decode's end. */
  lateFailure: FaultKind | "";
  lateFailureWhen: "" | "streaming" | "after_end";
  settleWaitMs: number;
  handoffReleased: boolean;
}

/**
 * An attempt begins: what its legs have not done has not happened, whatever those of the attempt before did. `prefilled`: it uses the hand-off
 * of the attempt before, whose prefill is then its own.
 */
export function beginLegs(record: RequestRecord, prefilled: boolean): void {
  if (!prefilled) {
    record.prefillSpanId = "";
    record.prefillSentAt = 0;
    record.prefillDoneAt = 0;
  }
  record.decodeSpanId = "";
  record.decodeSentAt = 0;
  record.decodeHeadersAt = 0;
}

/**
 * A fresh record with every field present, in one literal: all records of a process share one hidden class, so that each later
 * `record.x = …` on the hot path is a plain store and every reader stays monomorphic.
 * `now` is the router's monotonic clock, `wallNow` the time of day; both in milliseconds.
 */
export function createRecord(now: number, wallNow: number): RequestRecord {
  return {
    id: "",
    traceId: "",
    parentSpanId: "",
    spanId: "",
    prefillSpanId: "",
    decodeSpanId: "",
    sampled: false,
    traceState: "",
    baggage: "",
    route: "",
    model: "other",
    streaming: false,
    clientKey: "",
    pool: "",
    path: "",
    prefill: "",
    decode: "",
    startedAt: wallNow,
    t0: now,
    admittedAt: 0,
    prefillSentAt: 0,
    prefillDoneAt: 0,
    decodeSentAt: 0,
    decodeHeadersAt: 0,
    committedAt: 0,
    finishedAt: 0,
    tailEndedAt: 0,
    openDrains: 0,
    done: false,
    spansQueued: false,
    prefillObserved: false,
    status: 0,
    outcome: "",
    code: "",
    stage: "",
    attempts: 0,
    promptEstimate: 0,
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    bytesIn: 0,
    bytesOut: 0,
    chunks: 0,
    errorFrame: false,
    lateFailure: "",
    lateFailureWhen: "",
    settleWaitMs: 0,
    handoffReleased: false,
  };
}
