import type { EngineFault } from "../errors/failure.ts";
import type { Api } from "./api.ts";
import { isObject } from "./engine-error.ts";
import { errorFault, finishFault } from "./failure-marks.ts";
import { holdsError, holdsEscapedLetter } from "./json-marks.ts";
import { responseFault } from "./read-typed.ts";

/**
 * The failure that stands inside a buffered 200 answer: an error object, `"object":"error"`, a finish reason abort, error or cancelled in the
 * choices, in `meta_info` (also of a batch, an array) or as `stop_reason`, a failed response. Undefined for an answer, and for a text that is no
 * JSON, which is for the caller to judge. An answer without any of the words is not parsed.
 */
export function bufferedFault(text: string, api: Api): EngineFault | undefined {
  if (!mayHoldFault(text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  for (const item of Array.isArray(value) ? value : [value]) {
    const fault = isObject(item) ? answerFault(item, api) : undefined;
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function mayHoldFault(text: string): boolean {
  if (holdsError(text) || holdsEscapedLetter(text)) return true;
  return text.includes('"abort"') || text.includes('"cancel') || text.includes('"failed"');
}

function answerFault(answer: Record<string, unknown>, api: Api): EngineFault | undefined {
  // A response object has an `error` member of its own, filled only when its status is failed.
  if (api === "responses") return responseFault("response", answer) ?? errorFault(answer, 200);
  const fault = errorFault(answer, 200);
  if (fault !== undefined) return fault;
  if (api === "messages") return finishFault(answer.stop_reason);
  if (api === "generate") {
    return finishFault(isObject(answer.meta_info) ? answer.meta_info.finish_reason : answer.finish_reason);
  }
  for (const choice of Array.isArray(answer.choices) ? answer.choices : []) {
    const aborted = isObject(choice) ? finishFault(choice.finish_reason) : undefined;
    if (aborted !== undefined) return aborted;
  }
  return undefined;
}
