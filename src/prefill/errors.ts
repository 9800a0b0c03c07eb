import type { EngineOutput } from "./output.ts";

/**
 * - `no_output`: the stream ended before its first output
 * - `error_output`: the first output is an error, or could not be read
 * - `error_in_stream`: a later output is an error, or could not be read
 * - `backend_failed`, `backend_cancelled`: an output's finish reason says so
 * - `no_disaggregated_params`: prefill answered, but with nothing that decode could use
 */
export type PrefillErrorCode =
  | "no_output"
  | "error_output"
  | "error_in_stream"
  | "backend_failed"
  | "backend_cancelled"
  | "no_disaggregated_params";

/** Why a prefill stream did not lead to a hand-off. `cause` is the error as the stream had it, never a copy. */
export class PrefillError extends Error {
  override readonly name: string = "PrefillError";
  readonly code: PrefillErrorCode;

  constructor(code: PrefillErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** Prefill itself went well, but decode could not fetch its KV blocks. */
export class NoDisaggregatedParams extends PrefillError {
  override readonly name = "NoDisaggregatedParams";

  constructor(message: string) {
    super("no_disaggregated_params", message);
  }
}

/** The stream ended before it said anything. */
export function noOutput(): PrefillError {
  return new PrefillError("no_output", "Prefill router returned no output (stream ended)");
}

/** The first output is an error (or reading it threw). The worker's text is kept: it is often all an operator sees. */
export function errorOutput(error: unknown): PrefillError {
  return new PrefillError("error_output", `Prefill router returned error in output: ${workerText(error)}`, error);
}

/** A later output is an error (or reading it threw). */
export function errorInStream(error: unknown): PrefillError {
  return new PrefillError(
    "error_in_stream",
    `Prefill router returned error in output stream: ${workerText(error)}`,
    error,
  );
}

/** The failure that an output's finish reason tells of, if any. */
export function finishFailure(output: EngineOutput): PrefillError | undefined {
  const reason = output.finishReason;
  if (reason === undefined) return undefined;
  if (reason.kind === "error") return new PrefillError("backend_failed", `Prefill backend failed: ${reason.message}`);
  if (reason.kind === "cancelled") {
    return new PrefillError("backend_cancelled", "Prefill backend cancelled before completing the handoff");
  }
  return undefined;
}

/** The words of an error of unknown make: its message, itself when it is text, else its JSON. */
function workerText(error: unknown): string {
  if (typeof error === "string") return error;
  if (typeof error === "object" && error !== null) {
    if ("message" in error && typeof error.message === "string") return error.message;
    try {
      return JSON.stringify(error) ?? String(error);
    } catch {
      // A cycle, a bigint or a throwing `toJSON`; the text is for people, so any is better than a second error.
      return Object.prototype.toString.call(error);
    }
  }
  return String(error);
}
