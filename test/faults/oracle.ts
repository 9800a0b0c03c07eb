import type { Api } from "../../src/sse/api.ts";
import type { ScriptedEvent } from "./streams.ts";

/** What a client saw of one answer, over a socket or in-process. */
export interface Seen {
  status: number;
  headers: Headers;
  body: Buffer;
  /** The body came to an end of its own, as its framing says. */
  whole: boolean;
  flaw: string;
}

/** What may have happened, as far as the test knows. Empty lists allow anything that the contract knows. */
export interface Expectation {
  api: Api;
  stream: boolean;
  /** The whole answer may have come. */
  mayEndWell: boolean;
  /** An error may have come. */
  mayFail: boolean;
  /** With `mayFail`: the error may be a real status, a frame in a stream, or either. */
  as: "status" | "frame" | "either";
  statuses?: readonly number[];
  codes?: readonly string[];
  stages?: readonly string[];
  /** What decode wrote (streams), of which the client must have a prefix, byte for byte. */
  events: readonly ScriptedEvent[];
  /** How many whole events decode got out; a good end may not show more. */
  delivered: number;
  /** Events that must not be missing before a frame: decode was read long before it failed. */
  atLeast?: number;
  /** Comments of the router's own may stand before everything else. */
  keepAlive?: boolean;
  /** Decode's buffered answer. */
  body: string;
  /** An error event of the engine that is passed on unchanged, once. */
  ownFrame?: Buffer;
}

/** The end marks, written out here once more on purpose: the oracle takes nothing from the code it judges. */
const END: Readonly<Record<Api, string>> = {
  chat: "data: [DONE]\n\n",
  completions: "data: [DONE]\n\n",
  generate: "data: [DONE]\n\n",
  responses: "",
  messages: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
};
const AFTER_FRAME: Readonly<Record<Api, string>> = { ...END, messages: "" };

const STATUS_OF: Readonly<Record<string, readonly number[]>> = {
  prefill_unreachable: [502],
  decode_unreachable: [502],
  prefill_timeout: [504],
  decode_timeout: [504],
  event_too_large: [502],
  invalid_handoff: [502],
  shutting_down: [503],
  no_prefill_workers: [503],
  no_decode_workers: [503],
};
const STAGES = ["router", "prefill", "handoff", "decode"];

export type Ending = "well" | "status" | "frame";

/**
 * The one statement of what a client may see (contract sections 4 and 5), whatever went wrong behind the router: before the commit a
 * real status with a JSON error; after it whole events of decode, byte for byte and from the first one on, then either the rest of them or
 * one error frame, the API's end mark, and a clean end of the body. Never an invented finish, never half an event, never a hang.
 *
 * @returns how it ended
 * @throws an Error that says what the client should not have seen
 */
export function judge(seen: Seen, expected: Expectation): Ending {
  if (seen.flaw !== "" || !seen.whole) fault(seen, `the body did not end cleanly: ${seen.flaw || "cut"}`);
  if (seen.headers.get("x-request-id") === null) fault(seen, "no x-request-id");
  const ending = seen.status === 200 ? judgeAnswer(seen, expected) : judgeStatus(seen, expected);
  if (ending === "well" && !expected.mayEndWell) fault(seen, "a failure was presented as a good end");
  if (ending !== "well" && !expected.mayFail) fault(seen, "a good answer was presented as a failure");
  if (ending !== "well" && expected.as !== "either" && ending !== expected.as) {
    fault(seen, `the failure came as a ${ending}, expected a ${expected.as}`);
  }
  return ending;
}

function judgeStatus(seen: Seen, { api, statuses, codes, stages }: Expectation): Ending {
  if (seen.status < 400 || seen.status > 599) fault(seen, "neither 200 nor an error status");
  if (seen.headers.get("content-type") !== "application/json") fault(seen, "an error that is not application/json");
  const envelope = json(seen, seen.body.toString("utf8"));
  if (api === "messages" && envelope.type !== "error") fault(seen, 'an Anthropic error without "type": "error"');
  if (api !== "messages" && Object.keys(envelope).join() !== "error") fault(seen, "more than an error in the body");
  const error = errorOf(seen, envelope.error, true);
  if (stages !== undefined && !stages.includes(String(error.stage))) fault(seen, `stage ${error.stage}`);
  const code = seen.headers.get("x-router-error-code") ?? "";
  if (code === "internal") fault(seen, "a fault of the router's own");
  const fixed = STATUS_OF[code];
  if (fixed !== undefined && !fixed.includes(seen.status)) fault(seen, `code ${code} with status ${seen.status}`);
  if (codes !== undefined && !codes.includes(code)) fault(seen, `code ${code}, expected ${codes.join(" or ")}`);
  if (statuses !== undefined && !statuses.includes(seen.status)) {
    fault(seen, `status ${seen.status}, expected ${statuses.join(" or ")}`);
  }
  return "status";
}

function judgeAnswer(seen: Seen, expected: Expectation): Ending {
  const type = seen.headers.get("content-type") ?? "";
  if (!expected.stream) {
    if (type !== "application/json") fault(seen, `a buffered answer of type ${type}`);
    if (seen.body.toString("utf8") !== expected.body) fault(seen, "a buffered answer that decode did not give");
    return "well";
  }
  if (!type.startsWith("text/event-stream")) fault(seen, `a stream of type ${type}`);
  if (seen.headers.get("content-length") !== null) fault(seen, "a stream with a length");
  return judgeStream(seen, expected);
}

function judgeStream(seen: Seen, expected: Expectation): Ending {
  const { api, events, delivered, keepAlive, atLeast = 0 } = expected;
  let at = 0;
  if (keepAlive === true) {
    for (const comment = Buffer.from(": keep-alive\n\n"); startsAt(seen.body, comment, at); ) at += comment.length;
  }
  let passed = 0;
  let finished = false;
  let ended = false;
  let mended = false;
  for (const { role, bytes } of events) {
    const length = passedLength(seen.body, bytes, at);
    if (length === 0) break;
    at += length;
    mended = !startsAt(seen.body, bytes, at - length);
    // The end mark is the one event that the router may write itself.
    if (role === "end" && finished) ended = true;
    else passed++;
    if (role === "finish") finished = true;
    if (mended) break;
  }
  if (passed > delivered) fault(seen, `${passed} events, but decode sent ${delivered}`);
  const rest = seen.body.subarray(at);
  if (finished) {
    const missing = ended ? "" : END[api];
    if (rest.toString("utf8") !== missing) fault(seen, `after the finish event: ${show(rest)}`);
    return "well";
  }
  // No finish reason has been let through, and none may be invented: what is left is the frame, whole and alone.
  if (passed < atLeast) fault(seen, `${passed} events before the frame, expected at least ${atLeast}`);
  judgeFrame(seen, rest, expected);
  return "frame";
}

function judgeFrame(seen: Seen, rest: Buffer, { api, codes, stages, ownFrame, events, delivered }: Expectation): void {
  const after = AFTER_FRAME[api];
  const text = rest.toString("utf8");
  if (!text.endsWith(after)) fault(seen, `no ${show(after)} after the frame: ${show(rest)}`);
  const frame = text.slice(0, text.length - after.length);
  if (frame === "") fault(seen, "a stream without its finish ended without an error frame");
  if (ownFrame !== undefined && passedLength(Buffer.from(frame), ownFrame, 0) === Buffer.byteLength(frame)) return;
  if (!frame.endsWith("\n\n") || frame.indexOf("\n\n") !== frame.length - 2) {
    fault(seen, `not one whole event: ${show(rest)}`);
  }
  const lines = frame.slice(0, -2).split("\n");
  const named = api === "messages" || api === "responses";
  if (named !== (lines[0] === "event: error") || lines.length !== (named ? 2 : 1)) {
    fault(seen, `a frame of the wrong form: ${show(rest)}`);
  }
  const data = lines[lines.length - 1] ?? "";
  if (!data.startsWith("data: ")) fault(seen, `a frame without data: ${show(rest)}`);
  const value = json(seen, data.slice(6));
  if ("choices" in value) fault(seen, "an error frame with choices");
  if (named && value.type !== "error") fault(seen, 'a frame without "type": "error"');
  if (api === "responses") judgeResponsesFrame(seen, value, events, delivered);
  const error = errorOf(seen, value.error, !named);
  if (named) return;
  if (stages !== undefined && !stages.includes(String(error.stage))) fault(seen, `stage ${error.stage} in the frame`);
  if (codes !== undefined && ownFrame === undefined && !codes.includes(String(error.code)) && ours(error.code)) {
    fault(seen, `code ${error.code} in the frame, expected ${codes.join(" or ")}`);
  }
}

/** The number goes on where decode's own numbers stopped. */
function judgeResponsesFrame(seen: Seen, value: Members, events: readonly ScriptedEvent[], delivered: number): void {
  const number = value.sequence_number;
  if (typeof value.message !== "string" || value.message === "") fault(seen, "a responses frame without a message");
  if (typeof number !== "number" || number < 0 || number > Math.min(events.length, delivered) + 10) {
    fault(seen, `sequence_number ${String(number)}`);
  }
}

/** Codes of the router's own; an engine's stand in the body as the engine wrote them. */
function ours(code: unknown): boolean {
  return typeof code === "string" && /^(?:prefill|decode|event|invalid|shutting)_/.test(code);
}

type Members = Record<string, unknown>;

function errorOf(seen: Seen, value: unknown, complete: boolean): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) fault(seen, "no error object");
  const error = value as Members;
  const { message, type } = error;
  if (typeof message !== "string" || message.trim() === "") fault(seen, "an error without a message");
  if (Buffer.byteLength(String(message)) > 8192) fault(seen, "a message of more than 8 KiB");
  if (/\n\s+at .+:\d+/.test(String(message))) fault(seen, "a stack trace");
  if (typeof type !== "string" || type === "") fault(seen, "an error without a type");
  if (complete) {
    for (const member of ["code", "param", "stage"]) if (!(member in error)) fault(seen, `an error without ${member}`);
    if (!STAGES.includes(String(error.stage))) fault(seen, `stage ${String(error.stage)}`);
  }
  return error;
}

function json(seen: Seen, text: string): Members {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Members;
  } catch {
    // Said below.
  }
  return fault(seen, `not a JSON object: ${show(text)}`);
}

function startsAt(bytes: Buffer, part: Buffer, at: number): boolean {
  return bytes.length - at >= part.length && bytes.compare(part, 0, part.length, at, at + part.length) === 0;
}

/**
 * How many bytes of `body` are this event. Decode's last one may lack a line end or two that never came: a lone CR ends a line too, and the
 * blank line of an event whose data is whole is the router's to complete.
 */
function passedLength(body: Buffer, event: Buffer, at: number): number {
  if (startsAt(body, event, at)) return event.length;
  const content = event.subarray(0, contentLength(event));
  if (!startsAt(body, content, at)) return 0;
  const after = body.toString("latin1", at + content.length, at + content.length + 4);
  const lineEnds = /^(?:\r\n|\n|\r){2}/.exec(after)?.[0];
  return lineEnds === undefined ? 0 : content.length + lineEnds.length;
}

/** An event's bytes but for the line ends after its last line. */
export function contentLength(event: Buffer): number {
  let length = event.length;
  while (event[length - 1] === 10 || event[length - 1] === 13) length--;
  return length;
}

function show(bytes: Buffer | string): string {
  const text = typeof bytes === "string" ? bytes : bytes.toString("utf8");
  return JSON.stringify(text.length > 400 ? `${text.slice(0, 200)} … ${text.slice(-200)}` : text);
}

function fault(seen: Seen, what: string): never {
  throw new Error(`${what}\n  status ${seen.status}, body ${show(seen.body)}`);
}
