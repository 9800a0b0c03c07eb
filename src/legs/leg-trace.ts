import type { RequestRecord } from "../telemetry/record.ts";
import { legTraceparent } from "../telemetry/trace-context.ts";

/** The trace headers of one leg (contract section 7): the request's trace with the leg's own span, and the client's valid companions of it. */
export function legTrace(record: RequestRecord, legSpanId: string): Record<string, string> {
  const headers: Record<string, string> = { traceparent: legTraceparent(record, legSpanId) };
  if (record.traceState !== "") headers.tracestate = record.traceState;
  if (record.baggage !== "") headers.baggage = record.baggage;
  return headers;
}
