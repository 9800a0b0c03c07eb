import type { EventMeaning, StreamEvent } from "./api.ts";
import { isObject } from "./engine-error.ts";
import { holds, isDone, jsonOf, nothing } from "./event-data.ts";
import { eventFailure, finishFault, isNestedError } from "./failure-marks.ts";
import type { StreamState } from "./stream-state.ts";

type Members = Record<string, unknown>;

/** Members of a chat delta that are an answer. `role` is not one: a failed KV pull sends it before its error. */
const deltaAnswers = [
  "content",
  "reasoning_content",
  "reasoning",
  "tool_calls",
  "refusal",
  "function_call",
  "audio",
  "token_ids",
];

function chatAnswers(choice: Members): boolean {
  const { delta } = choice;
  return (
    holds(choice.logprobs) ||
    holds(choice.token_ids) ||
    (isObject(delta) && deltaAnswers.some((member) => holds(delta[member])))
  );
}

function completionAnswers(choice: Members): boolean {
  return holds(choice.text) || holds(choice.logprobs) || holds(choice.token_ids);
}

function generateAnswers(item: Members): boolean {
  return holds(item.text) || holds(item.output_ids);
}

/** chat/completions (contract section 5). */
export function readChat(event: StreamEvent, state: StreamState): EventMeaning {
  return readChoices(event, state, chatAnswers);
}

/** completions (contract section 5). */
export function readCompletions(event: StreamEvent, state: StreamState): EventMeaning {
  return readChoices(event, state, completionAnswers);
}

function readChoices(event: StreamEvent, state: StreamState, answers: (choice: Members) => boolean): EventMeaning {
  const meaning = nothing();
  if (readDone(event, state, meaning)) return meaning;
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isNestedError);
  if (!isObject(value) || meaning.failure !== undefined) return meaning;
  remember(value, state);
  meaning.usage = isObject(value.usage);
  const choices: unknown[] = Array.isArray(value.choices) ? value.choices : [];
  for (const [position, choice] of choices.entries()) {
    if (isObject(choice)) readChoice(choice, position, choice.finish_reason, answers(choice), state, meaning);
  }
  return meaning;
}

/** SGLang's /generate: one item per event, with its `index` in a batch; an array of items is read as one event for all of them. */
export function readGenerate(event: StreamEvent, state: StreamState): EventMeaning {
  const meaning = nothing();
  if (readDone(event, state, meaning)) return meaning;
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isNestedError);
  if (meaning.failure !== undefined) return meaning;
  const items: unknown[] = Array.isArray(value) ? value : [value];
  for (const [position, item] of items.entries()) {
    if (!isObject(item)) continue;
    const info = isObject(item.meta_info) ? item.meta_info : {};
    remember({ id: info.id }, state);
    if (typeof info.prompt_tokens === "number") meaning.usage = true;
    readChoice(item, position, info.finish_reason ?? item.finish_reason, generateAnswers(item), state, meaning);
  }
  return meaning;
}

function readDone(event: StreamEvent, state: StreamState, meaning: EventMeaning): boolean {
  if (!isDone(event)) return false;
  meaning.end = true;
  state.ended = true;
  return true;
}

/** Adds one choice to what the event means. An abort of any choice is the failure of the stream: half of the answers is not the answer. */
function readChoice(
  choice: Members,
  position: number,
  reason: unknown,
  answers: boolean,
  state: StreamState,
  meaning: EventMeaning,
): void {
  const index = typeof choice.index === "number" ? choice.index : position;
  const fault = finishFault(reason);
  if (fault !== undefined) {
    meaning.failure ??= { fault, nested: false };
    return;
  }
  const finished = holds(reason);
  if (finished) meaning.finishes = state.close(index) || meaning.finishes;
  else state.see(index);
  if (answers || finished) {
    meaning.answers = true;
    state.answered = true;
  }
}

function remember(value: Members, state: StreamState): void {
  if (state.id === undefined && typeof value.id === "string") state.id = value.id;
  if (state.created === undefined && typeof value.created === "number") state.created = value.created;
}
