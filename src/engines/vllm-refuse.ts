import type { Failure } from "../errors/failure.ts";
import { findMember, rawValue, readNumber, readScalar } from "../json/member.ts";
import { eachElement, type JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { asksFor, asksPromptLogprobs, isGiven } from "./asks.ts";
import type { GenerationRequest } from "./dialect.ts";
import { badRequest } from "./failures.ts";
import { refuseForAll, refuseMember } from "./refuse.ts";

export const vllmSplits: ReadonlySet<Api> = new Set(["chat", "completions", "responses", "messages"]);

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

/** Members that an API reads, in 0.32; it passes over the others, whatever stands in them. */
const READ: Readonly<
  Record<Api, { limits: readonly string[]; stops?: string; emptyStops?: true; stopIds?: true; logprobs?: string }>
> = {
  chat: { limits: ["max_tokens", "max_completion_tokens"], stops: "stop", stopIds: true, logprobs: "top_logprobs" },
  completions: { limits: ["max_tokens"], stops: "stop", stopIds: true, logprobs: "logprobs" },
  responses: { limits: ["max_output_tokens"], stops: "stop", emptyStops: true, stopIds: true },
  messages: { limits: ["max_tokens"], stops: "stop_sequences" },
  generate: { limits: [] },
};

/**
 * Members that prefill's one-token leg drops or replaces (`vllmPrefillLeg`), as vLLM's own checks want them: decode would refuse the
 * others after prefill, which does not see them, has filled blocks that nobody then fetches. Compared with a real engine, member by member.
 */
function refuseHidden({ api, doc, stream }: GenerationRequest): Failure | undefined {
  for (const param of READ[api].limits) {
    if (!isGiven(doc, param)) continue;
    const limit = Number(readScalar(doc, param) ?? Number.NaN);
    if (!Number.isInteger(limit)) return badRequest(param, `"${param}" must be an integer`);
    if (limit < 1) return badRequest(param, `"${param}" is ${limit}, expected at least 1`);
  }
  if (!stream && (api === "chat" || api === "completions") && isFilled(doc, "stream_options"))
    return badRequest("stream_options", '"stream_options" are only available with "stream": true');
  return refuseLogprobs(api, doc) ?? refuseStops(api, doc);
}

function refuseLogprobs(api: Api, doc: JsonObject): Failure | undefined {
  const param = READ[api].logprobs;
  const count = param === undefined ? 0 : (readNumber(doc, param) ?? 0);
  if (count === 0) return undefined;
  // All of the vocabulary is -1.
  if (count < -1) return badRequest(param!, `"${param}" is ${count}, expected at least -1`);
  if (api === "chat" && !asksFor(doc, "logprobs"))
    return badRequest("top_logprobs", '"top_logprobs" are only available with "logprobs": true');
  return undefined;
}

function refuseStops(api: Api, doc: JsonObject): Failure | undefined {
  const { stops, emptyStops, stopIds } = READ[api];
  const is = emptyStops === true ? isTextAt : isFilledTextAt;
  if (stops !== undefined && isGiven(doc, stops) && !isOneOrList(doc, stops, is))
    return badRequest(stops, `"${stops}" must be a string or a list of strings, and none of them empty`);
  if (stopIds === true && isGiven(doc, "stop_token_ids") && !isListOf(doc, "stop_token_ids", isTokenAt))
    return badRequest("stop_token_ids", '"stop_token_ids" must be a list of integers');
  return undefined;
}

/** Not `{}`, which is as good as nothing in vLLM's eyes. */
function isFilled(doc: JsonObject, key: string): boolean {
  return isGiven(doc, key) && !/^\{\s*\}$/.test(rawValue(doc, key)!.slice(0, 16));
}

type IsAt = (text: string, at: number, end: number) => boolean;

function isOneOrList(doc: JsonObject, key: string, is: IsAt): boolean {
  const { valueStart, valueEnd } = findMember(doc, key)!;
  return is(doc.text, valueStart, valueEnd) || isListOf(doc, key, is);
}

/** Looks at each element's beginning: a client may send millions of them. */
function isListOf(doc: JsonObject, key: string, is: IsAt): boolean {
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
  return text[at] === '"';
}

function isFilledTextAt(text: string, at: number): boolean {
  return text[at] === '"' && text[at + 1] !== '"';
}

function isTokenAt(text: string, at: number, end: number): boolean {
  return end - at <= 24 && /^"?-?\d+(?:\.0+)?"?$/.test(text.slice(at, end));
}
