import type { EventMeaning, StreamEvent } from "./api.ts";
import type { StreamState } from "./stream-state.ts";

/** The end mark of the OpenAI APIs. Some engines send it on the others too; it ends those as well. */
export const doneEvent = "data: [DONE]\n\n";

/** An event that changes nothing. */
export function nothing(): EventMeaning {
  return { answers: false, finishes: false, end: false, usage: false, failure: undefined };
}

/** The end mark. */
export function ended(state: StreamState): EventMeaning {
  state.ended = true;
  return { ...nothing(), end: true };
}

export function isDone(event: StreamEvent): boolean {
  return event.data !== undefined && event.data.trim() === "[DONE]";
}

/** The event's JSON value; undefined for text that is not JSON, which is passed on and means nothing. */
export function jsonOf(event: StreamEvent): unknown {
  if (event.data === undefined) return undefined;
  try {
    return JSON.parse(event.data);
  } catch {
    return undefined;
  }
}

/** Does this member hold anything? null, "", [], {} and what consists of such do not; that is how engines fill a chunk without an answer. */
export function holds(value: unknown): boolean {
  if (typeof value === "string") return value !== "";
  if (typeof value !== "object" || value === null) return value !== undefined && value !== null && value !== false;
  return Array.isArray(value) ? value.some(holds) : Object.values(value).some(holds);
}
