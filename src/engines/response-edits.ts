import { JsonError } from "../json/json-error.ts";
import { readValue } from "../json/member.ts";
import { scanObject } from "../json/scan.ts";
import { jsonString, setAt } from "../json/text.ts";
import type { PrefillTail } from "../prefill/task.ts";
import type { EventMeaning } from "../sse/api.ts";
import type { GenerationRequest } from "./dialect.ts";
import type { InputLogprob } from "./input-logprobs.ts";

/** Where each API says how many prompt tokens came from a cache. */
const CACHED_AT: Readonly<Record<GenerationRequest["api"], readonly string[]>> = {
  chat: ["usage", "prompt_tokens_details", "cached_tokens"],
  completions: ["usage", "prompt_tokens_details", "cached_tokens"],
  responses: ["usage", "input_tokens_details", "cached_tokens"],
  messages: ["usage", "cache_read_input_tokens"],
  generate: ["meta_info", "cached_tokens"],
};

/** A buffered answer as the client asked for it: its own model name, prefill's cached tokens, prefill's input logprobs. */
export function engineModelEdit(request: GenerationRequest, text: string, tail: PrefillTail | undefined): string {
  let edited = text;
  if (request.engineModel !== undefined) edited = setModel(edited, request);
  edited = setCached(edited, request.api, tail, []);
  return setInputLogprobs(edited, tail);
}

/** The same for the events of a stream; undefined when none of it applies, so that the stream passes unlooked at. */
export function eventEdits(request: GenerationRequest): {
  readonly everyEvent: boolean;
  readonly needsTail: boolean;
  edit(data: string, meaning: EventMeaning, tail: PrefillTail | undefined): string | undefined;
} {
  const aliased = request.engineModel !== undefined;
  let logprobsDone = false;
  return {
    everyEvent: aliased,
    needsTail: request.wantsInputLogprobs,
    edit(data, meaning, tail) {
      if (data === "[DONE]") return undefined;
      let edited = data;
      if (aliased) edited = setModel(edited, request);
      if (meaning.usage && !(meaning.answers && !meaning.finishes))
        edited = setCached(edited, request.api, tail, eventPath(request.api));
      if (request.wantsInputLogprobs && meaning.answers && (!logprobsDone || request.api === "generate")) {
        logprobsDone = true;
        edited = setInputLogprobs(edited, tail);
      }
      return edited;
    },
  };
}

/** Events of the typed APIs carry the answer a level deeper. */
function eventPath(api: GenerationRequest["api"]): readonly string[] {
  return api === "responses" ? ["response"] : [];
}

function setModel(text: string, request: GenerationRequest): string {
  const name = jsonString(request.model);
  let edited = text;
  for (const path of [["model"], ["response", "model"], ["message", "model"]]) {
    if (valueAt(edited, path) !== undefined) edited = setAt(edited, path, name);
  }
  return edited;
}

/** Decode counts the transferred prompt as cached; prefill knows. Never above the prompt, and only where usage is reported at all. */
function setCached(
  text: string,
  api: GenerationRequest["api"],
  tail: PrefillTail | undefined,
  under: readonly string[],
): string {
  const cached = tail?.promptTokensDetails?.cached_tokens;
  if (typeof cached !== "number") return text;
  const path = [...under, ...CACHED_AT[api]];
  const usage = valueAt(text, path.slice(0, under.length + 1));
  if (typeof usage !== "object" || usage === null) return text;
  const prompt = (usage as Record<string, unknown>)[
    api === "responses" || api === "messages" ? "input_tokens" : "prompt_tokens"
  ];
  return setAt(text, path, String(typeof prompt === "number" ? Math.min(cached, prompt) : cached));
}

function setInputLogprobs(text: string, tail: PrefillTail | undefined): string {
  const entries = tail?.inputLogprobs as readonly InputLogprob[] | undefined;
  if (entries === undefined) return text;
  let edited = text;
  for (const { path, raw } of entries) edited = setAt(edited, [...path], raw);
  return edited;
}

/** The value at a path of object members; undefined where there is none. */
function valueAt(text: string, path: readonly string[]): unknown {
  try {
    let value: unknown = readValue(scanObject(text), path[0]!);
    for (const key of path.slice(1)) {
      if (typeof value !== "object" || value === null) return undefined;
      value = (value as Record<string, unknown>)[key];
    }
    return value;
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}
