import type { Failure } from "../errors/failure.ts";
import type { JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { bufferedFault } from "../sse/marks.ts";
import { endingOf, scanAnswer } from "./answer.ts";
import type { EngineAnswer } from "./dialect.ts";
import { contentFailure, invalidHandoff, statusFailure, tooLongToKeep } from "./failures.ts";
import { judgeStream, looksLikeStream } from "./judge-stream.ts";

/** A good answer of a sequential prefill leg: its members, and the engine's word for how it ended. */
export interface SequentialAnswer {
  doc: JsonObject;
  word: string | undefined;
}

/**
 * What the sequential modes (NIXL, TensorRT-LLM) have in common: status, JSON, error objects and failed finish reasons. Decode
 * has not been called, so an answer that cannot be read has no hand-off in it (contract section 4, `invalid_handoff`).
 */
export function readSequential(api: Api, answer: EngineAnswer): SequentialAnswer | Failure {
  if (answer.status < 200 || answer.status > 299) {
    return statusFailure("prefill", answer, answer.text);
  }
  if (answer.truncated) return tooLongToKeep("The hand-off comes behind input logprobs that are");
  const doc = scanAnswer(answer.text);
  if (doc === undefined) return unreadable(api, answer);
  const fault = bufferedFault(answer.text, api);
  if (fault !== undefined) return contentFailure(answer, fault);
  return { doc, word: endingOf(api, doc) };
}

/** Not JSON. An engine that streamed although it was told not to may at least have said what went wrong. */
function unreadable(api: Api, answer: EngineAnswer): Failure {
  if (looksLikeStream(answer.text)) {
    const { fault } = judgeStream(api, answer.text);
    if (fault !== undefined) return contentFailure(answer, fault);
  }
  const what = answer.text.trim() === "" ? "Prefill's answer is empty" : "Prefill's answer is not a JSON object";
  return invalidHandoff(`${what}, so there is no hand-off in it`);
}
