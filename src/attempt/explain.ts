import { asFailure, ClientGone, Failure } from "../errors/failure.ts";
import { PrefillError } from "../prefill/errors.ts";

/** Anything thrown on the way → what the client may see. The heart's errors keep the dialect's Failure as their cause. */
export function explain(error: unknown): Failure | ClientGone {
  if (error instanceof ClientGone) return error;
  if (error instanceof PrefillError) {
    if (error.cause instanceof Failure) return error.cause;
    if (error.code === "no_disaggregated_params") {
      return new Failure("invalid_handoff", {
        status: 502,
        stage: "handoff",
        kind: "content",
        message: error.message,
        cause: error,
      });
    }
    return new Failure("prefill_failed", {
      status: 502,
      stage: "prefill",
      kind: "content",
      message: error.message,
      cause: error,
    });
  }
  return asFailure(error);
}

export function explainPrefill(error: unknown): Failure {
  const failure = explain(error);
  return failure instanceof Failure
    ? failure
    : new Failure("prefill_failed", {
        status: 502,
        stage: "prefill",
        kind: "reset",
        message: "Prefill was cancelled",
        cause: error,
      });
}
