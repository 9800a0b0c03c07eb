import type { EngineFault } from "../errors/failure.ts";
import type { EventMeaning, StreamEvent } from "./api.ts";
import { engineFault, isObject } from "./engine-error.ts";

type Members = Record<string, unknown>;

/** Finish reasons that are failures under a good status (SGLang, vLLM: abort; TensorRT-LLM and Dynamo: cancelled, error). */
const failing = new Set(["abort", "error", "cancelled", "canceled"]);

/**
 * What a finish reason says when it is a failure: `"abort"`, `"error"`, `"cancelled"`, `"error: text"`, `{"error":"text"}`, or SGLang's
 * `{"type":"abort","message","status_code","err_type"}`. Undefined for every reason that finishes an answer, and for none.
 */
export function finishFault(reason: unknown): EngineFault | undefined {
  if (typeof reason === "string") {
    if (reason.startsWith("error:")) return engineFault(reason.slice("error:".length).trim(), 200);
    return failing.has(reason) ? unexplained(reason) : undefined;
  }
  if (!isObject(reason)) return undefined;
  if (typeof reason.type === "string" && failing.has(reason.type)) {
    const { message, err_type, status_code } = reason;
    if (typeof message !== "string" || message.trim() === "")
      return { ...engineFault({ type: err_type, status_code }, 200), ...unexplained(reason.type) };
    return engineFault({ message, type: err_type, status_code }, 200);
  }
  return reason.error ? engineFault(reason, 200) : undefined;
}

function unexplained(reason: string): EngineFault {
  return { message: `The engine ended the answer with finish reason "${reason}"` };
}

/**
 * The error that a JSON value is, when it is one: a truthy `error` member (`"error": null` and an empty string are nothing), flat
 * `{"object":"error"}` or `{"type":"error"}`, or FastAPI's `{"detail":…}` that stands alone.
 */
export function errorFault(value: Members, status: number): EngineFault | undefined {
  if (value.error || value.object === "error" || value.type === "error") return engineFault(value, status);
  // Alone: `detail` beside an answer is a member like any other.
  if (value.detail && !value.choices && !value.type && !value.object && !value.meta_info && value.text === undefined) {
    return engineFault(value, status);
  }
  return undefined;
}

/** An event's failure: an error value, or whatever comes under `event: error`. `understood` says which values clients raise on as they are. */
export function eventFailure(
  event: StreamEvent,
  value: unknown,
  understood: (value: Members, type: string) => boolean,
): EventMeaning["failure"] {
  const fault = isObject(value) ? errorFault(value, 200) : undefined;
  if (fault !== undefined) return { fault, nested: understood(value as Members, event.type) };
  return event.type === "error" ? { fault: engineFault(value ?? event.data, 200), nested: false } : undefined;
}

/**
 * `{"error":{message,…}}` in the form the client libraries raise on: a `message` that is there, names that pass the AI SDK's schema, and no
 * `choices` beside it (with them the AI SDK ignores the error).
 */
export function isNestedError(value: Members): boolean {
  const { error } = value;
  if (!isObject(error) || typeof error.message !== "string" || error.message === "" || "choices" in value) return false;
  const { type, code } = error;
  return (
    (type == null || typeof type === "string") && (code == null || typeof code === "string" || typeof code === "number")
  );
}
