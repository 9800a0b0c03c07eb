import { failedAt } from "../telemetry/failed.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { RequestRow } from "./update.ts";

/** A record as the dashboard shows it. Made only when somebody looks. `trusted`: the viewer has shown the admin key. */
export function rowOf(record: RequestRecord, key: number, trusted: boolean): RequestRow {
  const { t0 } = record;
  const since = (time: number): number | undefined => (time > 0 ? Math.round((time - t0) * 10) / 10 : undefined);
  // Several sequences share one record, and each writes its own times: what ended before it began has not ended.
  const after = (start: number, end: number): number | undefined => (end >= start ? since(end) : undefined);
  return {
    key,
    id: record.id,
    at: record.startedAt,
    route: record.route,
    model: record.model,
    stream: record.streaming,
    path: record.path,
    pool: record.pool,
    prefill: record.prefill,
    decode: record.decode,
    status: record.status,
    outcome: record.outcome,
    failed: record.done ? failedAt(record) : undefined,
    code: record.code || undefined,
    stage: record.stage || undefined,
    attempts: record.attempts,
    late: record.lateFailure || undefined,
    lateWhen: record.lateFailureWhen || undefined,
    errorFrame: record.errorFrame || undefined,
    tailOpen: record.openDrains > 0 || undefined,
    handoffReleased: record.handoffReleased || undefined,
    admitted: since(record.admittedAt),
    prefillSent: since(record.prefillSentAt),
    prefillDone: after(record.prefillSentAt, record.prefillDoneAt),
    decodeSent: after(record.prefillSentAt, record.decodeSentAt),
    decodeHeaders: after(record.decodeSentAt, record.decodeHeadersAt),
    firstToken: since(record.committedAt),
    finished: since(record.finishedAt),
    tailEnded: since(record.tailEndedAt),
    settleWait: record.settleWaitMs > 0 ? Math.round(record.settleWaitMs) : undefined,
    promptEstimate: record.promptTokens > 0 ? undefined : record.promptEstimate || undefined,
    promptTokens: record.promptTokens || undefined,
    cachedTokens: record.cachedTokens || undefined,
    completionTokens: record.completionTokens || undefined,
    bytesIn: record.bytesIn,
    // Written when a stream has ended; while it runs there is nothing to show.
    bytesOut: record.bytesOut,
    trace: record.traceId || undefined,
    client: (trusted && record.clientKey) || undefined,
  };
}
