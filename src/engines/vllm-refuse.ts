import type { Failure } from "../errors/failure.ts";
import { findMember, rawValue, readNumber, readString } from "../json/member.ts";
import { eachElement, type JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { asksFor, asksPromptLogprobs, isGiven } from "./asks.ts";
import type { GenerationRequest } from "./dialect.ts";
import { badRequest } from "./failures.ts";
import { refuseForAll, refuseMember } from "./refuse.ts";

export const vllmSplits: ReadonlySet<Api> = new Set(["chat", "completions", "responses", "messages"]);

const LIMITS = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const;

/** What a vLLM pair cannot do, whatever its connector. */
export function refuseVllm(request: GenerationRequest): Failure | undefined {
  const refused = refuseForAll(request, vllmSplits);
  if (refused !== undefined) return refused;
  const { api, doc, stream } = request;
  // Beams are requests of the engine's own making, which carry no hand-off: decode would compute everything again.
  if (asksFor(doc, "use_beam_search")) return refuseMember("use_beam_search");
  const hidden = refuseHidden(request);
  if (hidden !== undefined) return hidden;
  if (api !== "chat" && api !== "completions") return undefined;
  // A chat's echo makes the engine compute the prompt's logprobs, asked for or not: decode then computes the whole prompt again (seen on a
  // real pair).
  if (api === "chat" && asksFor(doc, "echo")) return refuseMember("echo");
  if (stream && asksPromptLogprobs(doc) && readNumber(doc, "prompt_logprobs") !== 0) {
    return badRequest("prompt_logprobs", '"prompt_logprobs" are not available with "stream": true');
  }
  return undefined;
}

/**
 * Members that prefill's one-token leg drops or replaces (`vllmPrefillLeg`), as vLLM's own checks want them: decode would refuse the
 * others after prefill, which does not see them, has filled blocks that nobody then fetches.
 */
function refuseHidden({ api, doc, stream }: GenerationRequest): Failure | undefined {
  for (const param of LIMITS) {
    if (!isGiven(doc, param)) continue;
    const limit = readNumber(doc, param) ?? Number(readString(doc, param) ?? Number.NaN);
    if (!Number.isInteger(limit)) return badRequest(param, `"${param}" must be an integer`);
    if (limit < 1) return badRequest(param, `"${param}" is ${limit}, expected at least 1`);
  }
  if (!stream && (api === "chat" || api === "completions") && isFilled(doc, "stream_options"))
    return badRequest("stream_options", '"stream_options" are only available with "stream": true');
  return refuseLogprobs(api, doc) ?? refuseStops(doc);
}

function refuseLogprobs(api: Api, doc: JsonObject): Failure | undefined {
  const param = api === "chat" ? "top_logprobs" : "logprobs";
  const count = readNumber(doc, param) ?? 0;
  // All of the vocabulary is -1.
  if (count < -1) return badRequest(param, `"${param}" is ${count}, expected at least -1`);
  if (api === "chat" && count !== 0 && !asksFor(doc, "logprobs"))
    return badRequest("top_logprobs", '"top_logprobs" are only available with "logprobs": true');
  return undefined;
}

function refuseStops(doc: JsonObject): Failure | undefined {
  if (isGiven(doc, "stop") && !isText(doc, "stop") && !isListOf(doc, "stop", isTextAt))
    return badRequest("stop", '"stop" must be a string or a list of strings, and none of them empty');
  if (isGiven(doc, "stop_sequences") && !isListOf(doc, "stop_sequences", isTextAt))
    return badRequest("stop_sequences", '"stop_sequences" must be a list of strings, and none of them empty');
  if (isGiven(doc, "stop_token_ids") && !isListOf(doc, "stop_token_ids", isTokenAt))
    return badRequest("stop_token_ids", '"stop_token_ids" must be a list of integers');
  return undefined;
}

/** Not `{}`, which is as good as nothing in vLLM's eyes. */
function isFilled(doc: JsonObject, key: string): boolean {
  return isGiven(doc, key) && !/^\{\s*\}$/.test(rawValue(doc, key)!.slice(0, 16));
}

function isText(doc: JsonObject, key: string): boolean {
  return isTextAt(doc.text, findMember(doc, key)!.valueStart);
}

/** Looks at each element's beginning: a client may send millions of them. */
function isListOf(doc: JsonObject, key: string, is: (text: string, at: number, end: number) => boolean): boolean {
  const { text } = doc;
  const { valueStart } = findMember(doc, key)!;
  if (text[valueStart] !== "[") return false;
  let all = true;
  eachElement(text, valueStart, (at, end) => {
    all = is(text, at, end);
    return all;
  });
  return all;
}

function isTextAt(text: string, at: number): boolean {
  return text[at] === '"' && text[at + 1] !== '"';
}

function isTokenAt(text: string, at: number, end: number): boolean {
  return end - at <= 24 && /^"?-?\d+"?$/.test(text.slice(at, end));
}
