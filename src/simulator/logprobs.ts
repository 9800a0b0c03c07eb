import type { Json, JsonRecord } from "./json.ts";
import type { Prompt } from "./prompt.ts";
import { detokenize, type Token, tokenize, wordTokens } from "./vocabulary.ts";

/** A token's log probability: a function of the token and its place, so that two servers give the same. */
export function logprobOf(id: number, place: number): number {
  const mixed = Math.imul(id ^ Math.imul(place + 1, 2_654_435_761), 2_246_822_507) >>> 0;
  return -Math.round((mixed / 4_294_967_296) * 3000) / 1000;
}

/** The `count` likeliest tokens in a place; the chosen one is always among them. */
export function alternatives(chosen: Token, place: number, count: number): Token[] {
  const list: Token[] = [chosen];
  for (let offset = 1; list.length < count; offset++) {
    const other = wordTokens(place * 7 + offset)[0] as Token;
    if (list.every((token) => token.id !== other.id)) list.push(other);
  }
  return list.slice(0, Math.max(count, 1));
}

/** OpenAI chat: one entry of `choices[].logprobs.content`. */
export function chatLogprob(token: Token, place: number, top: number): JsonRecord {
  function entry(one: Token): JsonRecord {
    return { token: one.text, logprob: logprobOf(one.id, place), bytes: [...new TextEncoder().encode(one.text)] };
  }
  return { ...entry(token), top_logprobs: top === 0 ? [] : alternatives(token, place, top).map(entry) };
}

/**
 * OpenAI completions: `choices[].logprobs` of a run of tokens that starts at place and text offset. Offsets count the tokens' own texts,
 * in code points, as vLLM does; SGLang (`offset` undefined) knows none and says -1.
 */
export function completionLogprobs(
  tokens: readonly Token[],
  place: number,
  offset: number | undefined,
  top: number,
): JsonRecord {
  let at = offset ?? 0;
  const offsets: number[] = [];
  for (const token of tokens) {
    offsets.push(offset === undefined ? -1 : at);
    at += codePoints(token);
  }
  return {
    text_offset: offsets,
    token_logprobs: tokens.map((token, index) => logprobOf(token.id, place + index)),
    tokens: tokens.map((token) => token.text),
    top_logprobs: tokens.map(function describe(token, index) {
      const entries = alternatives(token, place + index, Math.max(top, 1));
      return Object.fromEntries(entries.map((one) => [one.text, logprobOf(one.id, place + index)])) as JsonRecord;
    }),
  };
}

export function codePoints(token: Token): number {
  return [...token.text].length;
}

/** SGLang: `[logprob, id, text]`; its texts are null unless asked for. */
export function triple(token: Token, place: number, withText: boolean): Json[] {
  return [logprobOf(token.id, place), token.id, withText ? token.text : null];
}

/** The prompt's own tokens, as the model reads them. */
export function promptTokens(prompt: Prompt): Token[] {
  return tokenize(prompt.text).map((id) => ({ id, text: detokenize([id]) }));
}

/** SGLang's `input_token_logprobs`: from `start` on; the very first token of a prompt has no logprob. */
export function inputTriples(prompt: Prompt, start: number, withText: boolean): Json[] {
  return promptTokens(prompt)
    .map((token, place): Json => {
      if (place === 0) return [null, token.id, withText ? token.text : null];
      return triple(token, place, withText);
    })
    .slice(start);
}

/** SGLang's `input_top_logprobs`: per token a list, null for the first. */
export function inputTops(prompt: Prompt, start: number, top: number, withText: boolean): Json[] {
  return promptTokens(prompt)
    .map((token, place): Json => {
      if (place === 0) return null;
      return alternatives(token, place, top).map((one) => triple(one, place, withText));
    })
    .slice(start);
}

/** vLLM's `prompt_logprobs`: null, then one object per token, by id. */
export function promptLogprobs(prompt: Prompt, top: number): Json[] {
  return promptTokens(prompt).map(function describe(token, place): Json {
    if (place === 0) return null;
    const entries = alternatives(token, place, Math.max(top, 1)).map(function entry(one, rank) {
      return [String(one.id), { logprob: logprobOf(one.id, place), rank: rank + 1, decoded_token: one.text }] as const;
    });
    return Object.fromEntries(entries) as JsonRecord;
  });
}
