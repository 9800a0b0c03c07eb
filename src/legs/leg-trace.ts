import type { RequestRecord } from "../telemetry/record.ts";
import { legTraceparent } from "../telemetry/trace-context.ts";

/**
 * The trace headers of one leg (contract section 7): the request's trace with the leg's own span, and the client's valid companions of it.
 * Added to `headers`, which are given back.
 */
export function legTrace(
  record: RequestRecord,
  legSpanId: string,
  headers: Record<string, string> = {},
): Record<string, string> {
  headers.traceparent = legTraceparent(record, legSpanId);
  if (record.traceState !== "") headers.tracestate = record.traceState;
  if (record.baggage !== "") headers.baggage = record.baggage;
  return headers;
}
