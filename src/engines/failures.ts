import { type EngineFault, Failure } from "../errors/failure.ts";
import type { AnswerHead } from "../legs/exchange.ts";
import { passedHeaders } from "../legs/passed-headers.ts";
import { engineFault } from "../sse/engine-error.ts";
import type { EngineAnswer } from "./dialect.ts";

/** 400: the request asks for what a split cannot give. `param` names the member (contract section 4). */
export function badRequest(param: string, message: string): Failure {
  return new Failure("invalid_request", { status: 400, stage: "router", message, param });
}

/**
 * A leg's status is no success: the engine's own when it is one of an error, else 502 (contract section 4). What a redirect says is nothing
 * about an error; it is not followed (section 7).
 *
 * @param text what came of the answer's body
 */
export function statusFailure(role: "prefill" | "decode", head: AnswerHead, text: string): Failure {
  const { status } = head;
  const redirected = status >= 300 && status < 400;
  const fault = redirected ? undefined : engineFault(text, status);
  return new Failure(role === "prefill" ? "prefill_failed" : "decode_failed", {
    status: isErrorStatus(status) ? status : 502,
    stage: role,
    kind: "status",
    message: fault?.message || `The ${role} worker answered with status ${status}`,
    ...(fault === undefined ? {} : { engine: fault }),
    headers: passedHeaders(head.headers),
  });
}

/** Prefill answered with a 200 whose content is an error: the status its fault carries counts, else 502 (contract section 4). */
export function contentFailure(answer: EngineAnswer, fault: EngineFault): Failure {
  return new Failure("prefill_failed", {
    status: fault.status ?? 502,
    stage: "prefill",
    kind: "content",
    message: fault.message || "Prefill answered with an error",
    engine: fault,
    headers: passedHeaders(answer.headers),
  });
}

/** 502: prefill answered, but with nothing decode could use. `message` says what was wrong with it. */
export function invalidHandoff(message: string): Failure {
  return new Failure("invalid_handoff", { status: 502, stage: "handoff", kind: "content", message });
}

/** Prefill's answer is longer than what is kept of one. */
export function tooLongToKeep(what: string): Failure {
  return nobodysFault(`${what} longer than the router keeps of prefill's answer (limits.tailBytes)`);
}

/** 502: nothing came of a hand-off, and it lies in the request: no worker is blamed, and no other one would do better. */
export function nobodysFault(message: string): Failure {
  return new Failure("prefill_failed", { status: 502, stage: "router", message });
}

/** A status that an error may keep on its way to the client. */
function isErrorStatus(status: number): boolean {
  return status >= 400 && status <= 599;
}
