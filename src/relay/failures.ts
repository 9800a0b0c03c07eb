import { Failure, faultWithinAnswer } from "../errors/failure.ts";
import type { SeenEvent } from "./held-event.ts";

export function eventTooLarge(limit: number): Failure {
  return decodeFault("event_too_large", "content", `The decode worker sent an event of more than ${limit} bytes`);
}

/** The transport failed in the middle. Before an answer: unreachable, and may be retried. After it: a failed answer. Our own failure stays one. */
export function cutShort(lost: Failure, answered: boolean, cause: unknown): Failure {
  return answered && lost.stage !== "router" ? decodeFault("decode_failed", "cut", lost.message, cause) : lost;
}

export function endedEarly(): Failure {
  return decodeFault("decode_failed", "cut", "The decode worker's stream ended before its answer was finished");
}

export function tooSilent(ms: number): Failure {
  return new Failure("decode_timeout", {
    status: 504,
    stage: "decode",
    kind: "timeout",
    message: `The decode worker was silent for ${ms} ms`,
  });
}

/** The failure that stands in an event of decode. */
export function engineFailure(seen: SeenEvent): Failure {
  const { fault, nested } = seen.meaning.failure!;
  return faultWithinAnswer(fault, nested ? { frame: seen.bytes } : {});
}

function decodeFault(
  code: "event_too_large" | "decode_failed",
  kind: "content" | "cut",
  message: string,
  cause?: unknown,
): Failure {
  return new Failure(code, { status: 502, stage: "decode", kind, message, cause });
}
