import type { EventMeaning, StreamEvent } from "./api.ts";
import type { StreamState } from "./stream-state.ts";

/** The end mark of the OpenAI APIs. Some engines send it on the others too; it ends those as well. */
export const doneEvent = "data: [DONE]\n\n";

/** An event that changes nothing. */
export const NO_MEANING: Readonly<EventMeaning> = {
  answers: false,
  finishes: false,
  end: false,
  usage: false,
  failure: undefined,
};

/** Any event in the middle of an answer. */
export const MORE: Readonly<EventMeaning> = { ...NO_MEANING, answers: true };

/** To be filled in. */
export function nothing(): EventMeaning {
  return { ...NO_MEANING };
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
  // Not by recursion: an engine may nest as deep as it likes.
  const within = [value];
  for (let one = within.pop(); within.length > 0 || one !== undefined; one = within.pop()) {
    if (typeof one === "object" && one !== null) {
      for (const item of Array.isArray(one) ? one : Object.values(one)) if (item !== undefined) within.push(item);
    } else if (one !== "" && one !== null && one !== false && one !== undefined) return true;
  }
  return false;
}
