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
  parentSpanId: string;
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
  tailEndedAt: number;
  status: number;
  outcome: Outcome | "";
  code: ErrorCode | "";
  stage: Stage | "";
  attempts: number;
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
