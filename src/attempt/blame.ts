import type { Failure } from "../errors/failure.ts";
import type { Worker } from "../workers/worker.ts";

/**
 * What a failure of a worker's own leg says about the worker (contract and issue terms: breaker). 429 and 503 are back-pressure, other
 * 4xx but 408 the client's fault, everything else the worker's.
 *
 * @param since when it was sent what has a buffered answer: who has answered others since then takes long for this one, and does not hang
 */
export function blame(worker: Worker, failure: Failure, now: number, since?: number): void {
  if (failure.stage === "router") return;
  if (failure.kind === "timeout" && since !== undefined && worker.answeredSince(since)) return;
  switch (verdict(failure)) {
    case "failed":
      worker.failed(now);
      return;
    case "busy":
      worker.busy(now, retryAfterMs(failure, Date.now()));
      return;
    case "neutral":
      worker.answered(now);
      return;
  }
}

export function verdict(failure: Failure): "failed" | "busy" | "neutral" {
  if (failure.kind !== "status" && failure.kind !== "content") return "failed";
  const { status } = failure;
  if (status === 429 || status === 503) return "busy";
  if (status >= 400 && status < 500 && status !== 408) return "neutral";
  return "failed";
}

/** `Retry-After` in seconds or as an HTTP date (RFC 9110 section 10.2.3) → milliseconds from `wallNow`. */
export function retryAfterMs(failure: Failure, wallNow: number): number | undefined {
  for (const [name, value] of failure.headers) {
    if (name !== "retry-after") continue;
    const seconds = Number(value);
    if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
    const date = Date.parse(value);
    if (!Number.isNaN(date)) return Math.max(0, date - wallNow);
  }
  return undefined;
}

/** A decode 5xx in a split request may be a failed KV pull, which is prefill's fault; 503 is back-pressure. */
export function isOpenDecodeFault(failure: Failure): boolean {
  return (failure.kind === "status" || failure.kind === "content") && verdict(failure) === "failed";
}
