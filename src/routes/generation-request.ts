import { asksInputLogprobs, asksSingleToken } from "../engines/asks.ts";
import type { GenerationRequest } from "../engines/dialect.ts";
import { findMember, rawValue, readBoolean, readScalar } from "../json/member.ts";
import { eachElement, JsonError, type JsonObject, scanObject, scanObjectAt } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { invalid } from "./read-body.ts";

/** What must be there, and of which kinds, for each API: enough to choose legs; everything else is the engine's to judge. */
const PROMPT: Readonly<Record<Api, { members: readonly string[]; kinds: string }>> = {
  chat: { members: ["messages"], kinds: "[" },
  completions: { members: ["prompt", "prompt_embeds"], kinds: '"[' },
  responses: { members: ["input"], kinds: '"[' },
  messages: { members: ["messages"], kinds: "[" },
  generate: { members: ["text", "input_ids", "input_embeds"], kinds: '"[' },
};

export function scanBody(text: string): JsonObject {
  try {
    return scanObject(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    switch (error.code) {
      case "not_object":
        throw invalid("The body is not a JSON object");
      case "too_deep":
        throw invalid("The body is nested too deeply");
      case "too_many_members":
        throw invalid("The body has too many members");
      default:
        throw invalid(`The body is not valid JSON (at character ${error.position})`);
    }
  }
}

/** The model a body names; undefined when there is none. */
export function modelOf(doc: JsonObject): string | undefined {
  const model = readScalar(doc, "model");
  if (model === null || (model === undefined && findMember(doc, "model") === undefined)) return undefined;
  if (typeof model !== "string") throw invalid('"model" must be a string', "model");
  return model;
}

/** Checks the shape of a generation request and reads what routing depends on. Throws a Failure 400 that names the member. */
export function generationRequest(
  api: Api,
  path: string,
  doc: JsonObject,
  model: string,
  engineModel: string | undefined,
): GenerationRequest {
  const stream = flag(doc, "stream");
  checkPrompt(api, doc);
  if (api === "generate") checkSamplingParams(doc);
  return {
    api,
    path,
    doc,
    stream,
    includeUsage: stream && includesUsage(doc),
    model,
    engineModel,
    singleToken: asksSingleToken(doc),
    wantsInputLogprobs: asksInputLogprobs(api, doc),
  };
}

function flag(doc: JsonObject, key: string): boolean {
  switch (rawValue(doc, key)) {
    case undefined:
    case "null":
    case "false":
      return false;
    case "true":
      return true;
    default:
      throw invalid(`"${key}" must be a boolean`, key);
  }
}

function includesUsage(doc: JsonObject): boolean {
  const options = objectAt(doc.text, findMember(doc, "stream_options")?.valueStart, "stream_options");
  return options !== undefined && readBoolean(options, "include_usage") === true;
}

/** Token ids are no prompts of their own; a list of anything else has one each. */
function checkLength(text: string, start: number, key: string): void {
  let count = 0;
  eachElement(text, start, (at) => {
    if (count === 0 && text[at] !== '"' && text[at] !== "[") return false;
    if (++count > MOST_PROMPTS) throw invalid(`"${key}" has too many elements`, key);
    return true;
  });
}

/** The objects are scanned again where samples are counted and cut apart; there nothing may be wrong with them any more. */
function checkSamplingParams(doc: JsonObject): void {
  const member = findMember(doc, "sampling_params");
  if (member === undefined) return;
  if (doc.text.charCodeAt(member.valueStart) !== 0x5b) objectAt(doc.text, member.valueStart, "sampling_params");
  else {
    let count = 0;
    eachElement(doc.text, member.valueStart, (start) => {
      if (++count > MOST_PROMPTS) throw invalid('"sampling_params" has too many elements', "sampling_params");
      objectAt(doc.text, start, "sampling_params");
      return true;
    });
  }
}

/** Far above any batch. Ten million prompts, which a body has room for, took over a second to count; their parameters six. */
const MOST_PROMPTS = 65_536;

/** No option has more, and each costs its span. */
const MOST_OPTIONS = 1_024;

function objectAt(text: string, start: number | undefined, param: string): JsonObject | undefined {
  if (start === undefined || text.charCodeAt(start) !== 0x7b) return undefined;
  try {
    return scanObjectAt(text, start, MOST_OPTIONS);
  } catch (error) {
    if (error instanceof JsonError) throw invalid(`"${param}" has too many members`, param);
    throw error;
  }
}

function checkPrompt(api: Api, doc: JsonObject): void {
  const { members, kinds } = PROMPT[api];
  for (const key of members) {
    const member = findMember(doc, key);
    if (member === undefined) continue;
    const first = doc.text[member.valueStart]!;
    if (kinds.includes(first)) {
      // Embeddings are a level deeper: their rows are tokens.
      if (first === "[" && kinds !== "[" && key !== "input_embeds") checkLength(doc.text, member.valueStart, key);
      return;
    }
    if (first !== "n") throw invalid(`"${key}" must be ${kinds === "[" ? "a list" : "a string or a list"}`, key);
  }
  throw invalid(`"${members[0]}" is missing`, members[0]!);
}
