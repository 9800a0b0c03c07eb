import { findMember, rawValue, readNumber } from "../json/member.ts";
import type { Patch } from "../json/patch.ts";
import type { JsonObject } from "../json/scan.ts";
import type { PromptTokensDetails } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";
import { objectIn } from "./answer.ts";

/** Where each API says what became of the prompt's tokens. */
const PLACES: Readonly<Record<Api, { usage: string; details: string | undefined; cached: string; total: string }>> = {
  chat: { usage: "usage", details: "prompt_tokens_details", cached: "cached_tokens", total: "prompt_tokens" },
  completions: { usage: "usage", details: "prompt_tokens_details", cached: "cached_tokens", total: "prompt_tokens" },
  responses: { usage: "usage", details: "input_tokens_details", cached: "cached_tokens", total: "input_tokens" },
  messages: { usage: "usage", details: undefined, cached: "cache_read_input_tokens", total: "input_tokens" },
  generate: { usage: "meta_info", details: undefined, cached: "cached_tokens", total: "prompt_tokens" },
};

/**
 * More of the prompt's side, for decode counts the transferred prompt as read from a cache, or as nothing at all, and never as written
 * to one. vLLM: `created_cache_tokens` in chat, `cache_write_tokens` in responses; SGLang: the tiers of the cache. Replaced where
 * decode has them, never added.
 */
const BESIDE = [
  "created_cache_tokens",
  "cache_write_tokens",
  "cached_tokens_per_turn",
  "cached_tokens_details",
] as const;

/** vLLM's messages count `input_tokens` without what was read from or written to a cache, so the three go together. */
const MESSAGES_BESIDE = ["input_tokens", "cache_creation_input_tokens"] as const;

/** What an engine says that gives no details where it would have to say 0 (SGLang): put over what decode says, but never added. */
export const NOTHING_CACHED: PromptTokensDetails = { cached_tokens: 0 };

/** Whether an answer may say how much of its prompt was cached: what says nothing of that leaves decode's numbers as they are. */
export function namesCachedTokens(api: Api, text: string): boolean {
  return text.includes(PLACES[api].cached);
}

/** What an answer's usage says about its prompt, with `cached_tokens` whatever name its API has for it; undefined when it says nothing. */
export function promptTokensDetails(api: Api, doc: JsonObject): PromptTokensDetails | undefined {
  const place = PLACES[api];
  const usage = objectIn(doc, place.usage);
  if (usage === undefined) return undefined;
  if (place.details !== undefined) {
    const details = objectIn(usage, place.details);
    if (details === undefined) return undefined;
    return JSON.parse(details.text.slice(details.open, details.close + 1)) as PromptTokensDetails;
  }
  const cached = readNumber(usage, place.cached);
  if (cached === undefined) return undefined;
  const found: PromptTokensDetails = { cached_tokens: cached };
  for (const key of api === "messages" ? MESSAGES_BESIDE : BESIDE) {
    const raw = rawValue(usage, key);
    if (raw !== undefined) found[key] = JSON.parse(raw);
  }
  return found;
}

/**
 * Puts prefill's numbers about the prompt into decode's usage; where decode reports no usage, nothing (contract section 5).
 *
 * @param answer the object that holds the usage
 * @param whole the usage is an answer's own and no running count: cached tokens are then added where it says nothing of them
 */
export function setPromptUsage(
  patch: Patch,
  api: Api,
  answer: JsonObject,
  told: PromptTokensDetails | undefined,
  whole: boolean,
): void {
  const cached = told?.cached_tokens;
  if (told === undefined || typeof cached !== "number" || !Number.isSafeInteger(cached)) return;
  const add = whole && told !== NOTHING_CACHED;
  const place = PLACES[api];
  const usage = objectIn(answer, place.usage);
  if (usage === undefined) return;
  if (api === "messages") {
    if (!add && findMember(usage, place.cached) === undefined) return;
    patch.set(usage, place.cached, String(cached));
    copy(patch, usage, told, MESSAGES_BESIDE);
    return;
  }
  const total = readNumber(usage, place.total);
  const counted = String(total === undefined ? cached : Math.min(cached, total));
  const details = place.details === undefined ? usage : objectIn(usage, place.details);
  if (details !== undefined) {
    if (!add && findMember(details, place.cached) === undefined) return;
    patch.set(details, place.cached, counted);
    copy(patch, details, told, BESIDE);
  } else if (add && place.details !== undefined) {
    // Absent or null, as engines write it that were not told to give details.
    patch.set(usage, place.details, `{"${place.cached}":${counted}}`);
  }
}

function copy(patch: Patch, to: JsonObject, told: PromptTokensDetails, keys: readonly string[]): void {
  for (const key of keys) {
    if (told[key] !== undefined && findMember(to, key) !== undefined) patch.set(to, key, JSON.stringify(told[key]));
  }
}
