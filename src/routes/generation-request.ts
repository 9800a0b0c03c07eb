import { asksInputLogprobs, asksSingleToken } from "../engines/asks.ts";
import type { GenerationRequest } from "../engines/dialect.ts";
import { findMember, rawValue, readValue } from "../json/member.ts";
import { JsonError, type JsonObject, scanObject } from "../json/scan.ts";
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
      default:
        throw invalid(`The body is not valid JSON (at character ${error.position})`);
    }
  }
}

/** The model a body names; undefined when there is none. */
export function modelOf(doc: JsonObject): string | undefined {
  const model = readValue(doc, "model");
  if (model === undefined || model === null) return undefined;
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
  const options = readValue(doc, "stream_options");
  return (
    typeof options === "object" && options !== null && (options as { include_usage?: unknown }).include_usage === true
  );
}

function checkPrompt(api: Api, doc: JsonObject): void {
  const { members, kinds } = PROMPT[api];
  for (const key of members) {
    const member = findMember(doc, key);
    if (member === undefined) continue;
    const first = doc.text[member.valueStart]!;
    if (kinds.includes(first)) return;
    if (first !== "n") throw invalid(`"${key}" must be ${kinds === "[" ? "a list" : "a string or a list"}`, key);
  }
  throw invalid(`"${members[0]}" is missing`, members[0]!);
}
