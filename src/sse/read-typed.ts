import type { EngineFault } from "../errors/failure.ts";
import type { EventMeaning, StreamEvent } from "./api.ts";
import { engineFault, isObject } from "./engine-error.ts";
import { ended, holds, isDone, jsonOf, nothing } from "./event-data.ts";
import { eventFailure, finishFault, isNestedError } from "./failure-marks.ts";
import type { StreamState } from "./stream-state.ts";

type Members = Record<string, unknown>;

/** /v1/responses (contract section 5). Usage stands in the finish event's `response`. */
export function readResponses(event: StreamEvent, state: StreamState): EventMeaning {
  if (isDone(event)) return ended(state);
  const meaning = nothing();
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isNestedError);
  if (!isObject(value)) return meaning;
  if (meaning.failure !== undefined) return meaning;
  const response = isObject(value.response) ? value.response : {};
  if (typeof response.id === "string") state.id ??= response.id;
  if (typeof response.created_at === "number") state.created ??= response.created_at;
  meaning.usage = isObject(response.usage);
  const type = typeOf(event, value);
  const failed = responseFault(type, response);
  if (failed !== undefined) {
    meaning.failure = { fault: failed, nested: false };
  } else if (type === "response.completed" || type === "response.incomplete") {
    finish(0, state, meaning);
  } else if (type.endsWith(".delta") || type === "response.output_item.added" || type === "response.output_item.done") {
    answer(state, meaning);
  }
  return meaning;
}

/** The events that end a response. Any other event's `status` is not its own word for the end. */
const finalEvents = new Set([
  "response",
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);

/**
 * A response that ended without being the answer: `response.failed`, or a final event (or the buffered object, type `response`) whose `status`
 * says so. Clients take `response.failed` for an ordinary event and raise nothing; hence it is no frame they understand.
 */
export function responseFault(type: string, response: Members): EngineFault | undefined {
  if (!finalEvents.has(type)) return undefined;
  const ending =
    type === "response.failed" || type === "response.cancelled" ? type.slice("response.".length) : response.status;
  if (ending !== "failed" && ending !== "cancelled") return undefined;
  const message = `The engine ended the response as ${ending}`;
  return holds(response.error) ? engineFault({ error: response.error }, 200) : { message };
}

/** /v1/messages (contract section 5). */
export function readMessages(event: StreamEvent, state: StreamState): EventMeaning {
  if (isDone(event)) return ended(state);
  const meaning = nothing();
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isMessagesError);
  if (!isObject(value) || meaning.failure !== undefined) return meaning;
  const message = isObject(value.message) ? value.message : {};
  if (typeof message.id === "string") state.id ??= message.id;
  meaning.usage = isObject(value.usage) || isObject(message.usage);
  const type = typeOf(event, value);
  if (type === "content_block_delta") answer(state, meaning);
  else if (type === "message_stop") return ended(state);
  else if (type === "message_delta" && isObject(value.delta) && holds(value.delta.stop_reason)) {
    const fault = finishFault(value.delta.stop_reason);
    if (fault === undefined) finish(0, state, meaning);
    else meaning.failure = { fault, nested: false };
  }
  return meaning;
}

/** Anthropic's library raises on the event's name alone; without it the frame is passed over. */
function isMessagesError(value: Members, type: string): boolean {
  return type === "error" && value.type === "error" && isNestedError(value);
}

/** The body's own `type`; the `event` line where there is none. */
function typeOf(event: StreamEvent, value: Members): string {
  return typeof value.type === "string" ? value.type : event.type;
}

function answer(state: StreamState, meaning: EventMeaning): void {
  meaning.answers = true;
  state.answered = true;
}

/** A finish commits as well: an answer may be empty. */
function finish(index: number, state: StreamState, meaning: EventMeaning): void {
  answer(state, meaning);
  meaning.finishes = state.close(index);
}
