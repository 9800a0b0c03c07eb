import { findMember, rawValue, readBoolean, readNumber } from "../json/member.ts";
import { eachElement, type JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";

/**
 * Whether a body asks for logprobs of its own prompt, which only prefill has (`GenerationRequest.wantsInputLogprobs`):
 * `prompt_logprobs`; `echo` with logprobs; for `/generate` `return_logprob`, unless `logprob_start_len` is -1, which asks for
 * the output's alone.
 */
export function asksInputLogprobs(api: Api, doc: JsonObject): boolean {
  if (api === "generate") {
    return isTrueOrHasTrue(doc, "return_logprob") && readNumber(doc, "logprob_start_len") !== -1;
  }
  if (api !== "chat" && api !== "completions") return false;
  return asksPromptLogprobs(doc) || asksEchoedPrompt({ api, doc });
}

/** `true`, or a list (one element per prompt) with a `true` in it. */
function isTrueOrHasTrue(doc: JsonObject, key: string): boolean {
  const member = findMember(doc, key);
  if (member === undefined) return false;
  const { text } = doc;
  if (text.charCodeAt(member.valueStart) !== 0x5b) return text.charCodeAt(member.valueStart) === 0x74;
  let has = false;
  eachElement(text, member.valueStart, (start) => {
    has = text.charCodeAt(start) === 0x74;
    return !has;
  });
  return has;
}

/** `prompt_logprobs` of vLLM: 0 and -1 (all of the vocabulary) are numbers like any other; null asks for nothing. */
export function asksPromptLogprobs(doc: JsonObject): boolean {
  return isGiven(doc, "prompt_logprobs");
}

/** A flag that is given and not off. Engines read more than `true` as true (1, "yes"), and decode must not be the one to find out. */
export function asksFor(doc: JsonObject, flag: string): boolean {
  const raw = rawValue(doc, flag);
  return raw !== undefined && raw !== "null" && raw !== "false" && raw !== "0";
}

/**
 * `echo` with logprobs, in completions: the prompt's logprobs then stand in front of the output's, in the same lists. A chat's echo is
 * a message and its lists are the output's alone.
 */
export function asksEchoedPrompt({ api, doc }: { api: Api; doc: JsonObject }): boolean {
  return api === "completions" && isGiven(doc, "logprobs") && asksFor(doc, "echo");
}

/** Logprobs of the output: `true`, or a number of alternatives (0 of them are logprobs too). */
export function asksOutputLogprobs(doc: JsonObject): boolean {
  return (
    readBoolean(doc, "logprobs") === true ||
    readNumber(doc, "logprobs") !== undefined ||
    readNumber(doc, "top_logprobs") !== undefined
  );
}

/** A least number of tokens, which a prefill leg of one token does not carry. */
export function asksMinimum(doc: JsonObject): boolean {
  return (readNumber(doc, "min_tokens") ?? 0) > 0 || (readNumber(doc, "min_completion_tokens") ?? 0) > 0;
}

/** The client's own limit is one token (`GenerationRequest.singleToken`). `max_completion_tokens` wins over `max_tokens`. */
export function asksSingleToken(doc: JsonObject): boolean {
  return readNumber(doc, isGiven(doc, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens") === 1;
}

/** Present and not null. */
export function isGiven(doc: JsonObject, key: string): boolean {
  const raw = rawValue(doc, key);
  return raw !== undefined && raw !== "null";
}
