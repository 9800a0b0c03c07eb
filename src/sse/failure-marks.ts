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
    if (reason.startsWith("error:")) return engineFault({ message: reason.slice("error:".length) }, 200);
    return failing.has(reason) ? engineFault({ message: unexplained(reason) }, 200) : undefined;
  }
  if (!isObject(reason)) return undefined;
  if (typeof reason.type === "string" && failing.has(reason.type)) {
    const { message, err_type, status_code } = reason;
    const said = typeof message === "string" && message.trim() !== "";
    // Its status code is the status the request would have had; a code for clients it is not.
    const fault = engineFault({ message: said ? message : unexplained(reason.type), err_type, status_code }, 200);
    delete fault.code;
    return fault;
  }
  return reason.error ? engineFault(reason, 200) : undefined;
}

function unexplained(reason: string): string {
  return `The engine ended the answer with finish reason "${reason}"`;
}

/**
 * The error that a JSON value is, when it is one: a truthy `error` member (`"error": null` and an empty string are nothing), flat
 * `{"object":"error"}` or `{"type":"error"}`, or FastAPI's `{"detail":…}` that stands alone: beside an answer it is a member like any other.
 */
export function errorFault(value: Members, status: number): EngineFault | undefined {
  if (value.error || value.object === "error" || value.type === "error") return engineFault(value, status);
  const alone = !["choices", "type", "object", "meta_info", "text", "output_ids"].some((member) => member in value);
  return value.detail && alone ? engineFault(value, status) : undefined;
}

/** An event's failure: an error value, or whatever comes under `event: error`. `understood` says which values clients raise on as they are. */
export function eventFailure(
  event: StreamEvent,
  value: unknown,
  understood: (value: Members, type: string) => boolean,
): EventMeaning["failure"] {
  if (isObject(value)) {
    const fault = errorFault(value, 200);
    if (fault !== undefined) return { fault, nested: understood(value, event.type) };
  }
  if (event.type !== "error" || event.data === undefined) return undefined;
  return { fault: engineFault(value === undefined ? event.data : value, 200), nested: false };
}

/**
 * `{"error":{message,…}}` in the form the client libraries raise on: a `message` that is there, names that pass the AI SDK's schema, and no
 * `choices` beside it (some versions of the AI SDK take such an event for an ordinary chunk).
 */
export function isNestedError(value: Members): boolean {
  const { error } = value;
  if (!isObject(error) || "choices" in value) return false;
  const { message, type, code } = error;
  if (typeof message !== "string" || message.trim() === "") return false;
  const named = type === undefined || type === null || typeof type === "string";
  return named && (code === undefined || code === null || typeof code === "string" || typeof code === "number");
}
