import type { RequestRecord } from "./record.ts";

/**
 * Value of `Server-Timing` (W3C) for a buffered answer, from what is known when its headers are sent: durations in milliseconds, no
 * worker's name or address. "" when there is nothing to tell. `now`: the router's monotonic clock.
 */
export function serverTiming(record: RequestRecord, now: number): string {
  const parts: string[] = [];
  add(parts, "queue", record.t0, record.admittedAt);
  if (record.prefillSentAt > 0) add(parts, "prefill", record.prefillSentAt, record.prefillDoneAt);
  if (record.prefillDoneAt > 0) add(parts, "handoff", record.prefillDoneAt, record.decodeSentAt);
  if (record.decodeSentAt > 0) add(parts, "decode", record.decodeSentAt, record.finishedAt || now);
  add(parts, "total", record.t0, record.finishedAt || now);
  return parts.join(", ");
}

function add(parts: string[], name: string, from: number, to: number): void {
  if (to > 0 && to >= from) parts.push(`${name};dur=${Math.round((to - from) * 100) / 100}`);
}
