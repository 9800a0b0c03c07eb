import type { EventMeaning, StreamEvent } from "./api.ts";
import { isObject } from "./engine-error.ts";
import { ended, holds, isDone, jsonOf, nothing } from "./event-data.ts";
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

/** chat/completions (contract section 5). */
export function readChat(event: StreamEvent, state: StreamState): EventMeaning {
  return readChoices(event, state, chatAnswers);
}

/** completions (contract section 5). */
export function readCompletions(event: StreamEvent, state: StreamState): EventMeaning {
  return readChoices(event, state, completionAnswers);
}

function readChoices(event: StreamEvent, state: StreamState, answers: (choice: Members) => boolean): EventMeaning {
  if (isDone(event)) return ended(state);
  const meaning = nothing();
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isNestedError);
  if (!isObject(value) || meaning.failure !== undefined) return meaning;
  remember(value, state);
  meaning.usage = isObject(value.usage);
  const choices = (Array.isArray(value.choices) ? value.choices : []).map(
    (choice: unknown, position): Choice | undefined =>
      isObject(choice)
        ? { index: indexOf(choice, position), reason: choice.finish_reason, answers: answers(choice) }
        : undefined,
  );
  return takeChoices(choices, state, meaning);
}

/** SGLang's /generate: one item per event, with its `index` in a batch; an array of items is read as one event for all of them. */
export function readGenerate(event: StreamEvent, state: StreamState): EventMeaning {
  if (isDone(event)) return ended(state);
  const meaning = nothing();
  const value = jsonOf(event);
  meaning.failure = eventFailure(event, value, isNestedError);
  if (meaning.failure !== undefined) return meaning;
  const items: unknown[] = Array.isArray(value) ? value : [value];
  const choices = items.map((item, position): Choice | undefined => {
    if (!isObject(item)) return undefined;
    const info = isObject(item.meta_info) ? item.meta_info : {};
    remember(info, state);
    if (typeof info.prompt_tokens === "number") meaning.usage = true;
    const reason = info.finish_reason ?? item.finish_reason;
    return { index: indexOf(item, position), reason, answers: holds(item.text) || holds(item.output_ids) };
  });
  return takeChoices(choices, state, meaning);
}

interface Choice {
  index: number;
  reason: unknown;
  answers: boolean;
}

/** Adds the choices of one event to what it means. An abort of any is the failure of the stream: half of the answers is not the answer. */
function takeChoices(choices: (Choice | undefined)[], state: StreamState, meaning: EventMeaning): EventMeaning {
  for (const choice of choices) {
    const fault = finishFault(choice?.reason);
    if (fault !== undefined) return { ...meaning, failure: { fault, nested: false } };
  }
  for (const choice of choices) {
    if (choice === undefined) continue;
    const finished = holds(choice.reason);
    if (finished) meaning.finishes = state.close(choice.index) || meaning.finishes;
    else state.see(choice.index);
    if (choice.answers || finished) meaning.answers = true;
  }
  if (meaning.answers) state.answered = true;
  return meaning;
}

function indexOf(choice: Members, position: number): number {
  return typeof choice.index === "number" ? choice.index : position;
}

function remember(value: Members, state: StreamState): void {
  if (state.id === undefined && typeof value.id === "string") state.id = value.id;
  if (state.created === undefined && typeof value.created === "number") state.created = value.created;
}
