import { type EngineFault, Failure, type FaultKind } from "../errors/failure.ts";
import { passedHeaders } from "../legs/passed-headers.ts";
import type { EngineAnswer } from "./dialect.ts";

/** 400: the request asks for what a split cannot give. `param` names the member (contract section 4). */
export function badRequest(param: string, message: string): Failure {
  return new Failure("invalid_request", { status: 400, stage: "router", message, param });
}

/**
 * Prefill answered with an error. The engine's own status counts when it is one of an error, then the one its fault carries,
 * else 502 (contract section 4).
 *
 * @param kind `status`: the HTTP status said so; `content`: a 200 whose content did
 */
export function prefillFailed(answer: EngineAnswer, kind: FaultKind, fault: EngineFault | undefined): Failure {
  return new Failure("prefill_failed", {
    status: isErrorStatus(answer.status) ? answer.status : (fault?.status ?? 502),
    stage: "prefill",
    kind,
    message: fault?.message || `Prefill answered with status ${answer.status}`,
    ...(fault === undefined ? {} : { engine: fault }),
    headers: passedHeaders(answer.headers),
  });
}

/** 502: prefill answered, but with nothing decode could use. `message` says what was wrong with it. */
export function invalidHandoff(message: string): Failure {
  return new Failure("invalid_handoff", { status: 502, stage: "handoff", kind: "content", message });
}

/** A status that an error may keep on its way to the client. */
export function isErrorStatus(status: number): boolean {
  return status >= 400 && status <= 599;
}
