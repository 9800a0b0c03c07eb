import type { Stage } from "../errors/failure.ts";
import type { RequestRecord } from "./record.ts";

/** Where a request went wrong, as people look for it: a stage, or `late` for a prefill tail that failed after decode's commit. */
export type FailedAt = Stage | "late";

export const FAILED_AT: readonly FailedAt[] = ["router", "prefill", "handoff", "decode", "late"];

/**
 * Where a finished request failed; undefined when it did not. What the client asked wrongly (4xx), and a client that left, is no failure:
 * nobody is paged for that. The same line is drawn by the log's levels.
 */
export function failedAt(record: RequestRecord): FailedAt | undefined {
  if (record.lateFailure !== "") return "late";
  if (record.outcome === "client_cancel") return undefined;
  if (record.errorFrame || record.status >= 500 || record.outcome === "internal") return record.stage || "router";
  return undefined;
}
