import type { EngineFault } from "../errors/failure.ts";
import { boundedText, maxMessageBytes } from "./bounded-text.ts";

/** Types, codes and names are short; what is longer is not one. */
const maxNameBytes = 256;
/** A proxy may wrap an error in an error. Deeper than this it is kept as JSON text. */
const maxDepth = 3;

type Members = Record<string, unknown>;

/** A JSON object, as opposed to null, an array or a scalar. */
export function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads what an engine says about its own error: a JSON value, or a body's text (parsed here when it is JSON). Knows every shape that engines
 * and their frameworks use: `{"error":{…}}`, `{"error":"x"}`, flat `{"object":"error",…}` and `{"message":…}`, FastAPI's `{"detail":"x"}` and
 * `{"detail":[{loc,msg}]}`, plain text, HTML. The message is never empty and at most 8 KiB.
 * `status` is the HTTP status it came with (below 400: an error inside a good answer) and serves the sentence for an empty body only; the
 * fault's own `status` is an integer `code` or `status_code` within 400–599 that stands in it.
 */
export function engineFault(value: unknown, status: number): EngineFault {
  const known = typeof value === "string" ? parsed(value) : value;
  const fault = read(known, 0);
  const message = fault.message.trim();
  fault.message = message === "" ? unsaid(status) : boundedText(message);
  return fault;
}

function unsaid(status: number): string {
  return status >= 400
    ? `The engine answered with status ${status} and no message`
    : "The engine reported an error without a message";
}

/** The JSON value of a text that is one, else the text. */
function parsed(text: string): unknown {
  const first = text.trimStart()[0];
  if (first === undefined || !'{["n'.includes(first)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function read(value: unknown, depth: number): EngineFault {
  if (typeof value === "string") return { message: value };
  if (value === null || value === undefined) return { message: "" };
  if (depth > maxDepth || typeof value !== "object") return { message: printed(value) };
  if (Array.isArray(value)) return { message: listed(value, depth) };
  return readMembers(value as Members, depth);
}

function readMembers(value: Members, depth: number): EngineFault {
  const inner = value.error ?? value.detail;
  const within = inner === undefined || inner === null ? undefined : read(inner, depth + 1);
  const own = text(value.message) ?? text(value.msg);
  // An error object speaks for itself; beside a mere name (`"error": "Bad Request"`) the `message` says more.
  const message = isObject(inner) ? (text(within?.message) ?? own) : (own ?? within?.message);
  const fault: EngineFault = {
    message: message ?? (within === undefined && holdsMembers(value) ? printed(value) : ""),
  };
  // `"type": "error"` only says what kind of event it is; the inner object's names come first.
  const type = within?.type ?? name(value.type === "error" ? undefined : value.type) ?? name(value.err_type);
  const code = within?.code ?? codeOf(value.code) ?? codeOf(value.status_code);
  const param = within?.param ?? name(value.param);
  const status = within?.status ?? statusOf(value.code) ?? statusOf(value.status_code);
  if (type !== undefined) fault.type = type;
  if (code !== undefined) fault.code = code;
  if (param !== undefined) fault.param = param;
  if (status !== undefined) fault.status = status;
  return fault;
}

function holdsMembers(value: Members): boolean {
  return Object.values(value).some((member) => member !== null && member !== undefined);
}

/** FastAPI's list of validation errors, or any other list, as one sentence per item; no more of them than a message can hold. */
function listed(items: unknown[], depth: number): string {
  const sentences: string[] = [];
  let length = 0;
  for (const item of items) {
    const sentence =
      isObject(item) && typeof item.msg === "string" ? located(item.loc) + item.msg : read(item, depth + 1).message;
    sentences.push(sentence);
    length += sentence.length;
    if (length > maxMessageBytes) break;
  }
  return sentences.join("; ");
}

/** A value nobody knows, as its JSON. Nested so deeply that it cannot be printed, it says nothing. */
function printed(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}

function located(loc: unknown): string {
  return Array.isArray(loc) && loc.length > 0 ? `${loc.join(".")}: ` : "";
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value : undefined;
}

function name(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? boundedText(value, maxNameBytes) : undefined;
}

function codeOf(value: unknown): string | number | undefined {
  return typeof value === "number" ? value : name(value);
}

function statusOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 400 && value <= 599 ? value : undefined;
}
