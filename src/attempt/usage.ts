import type { Api } from "../sse/api.ts";
import type { RequestRecord } from "../telemetry/record.ts";

const COLON = 0x3a;
const SPACE = 0x20;
const ZERO = 0x30;

/**
 * Token counts of a usage event or a buffered answer, for metrics and the log only. Looked for in the text from its end, where usage
 * stands; a quote inside a string is escaped, so these marks are members. `/generate` has them in `meta_info`.
 */
export function usageOf(record: RequestRecord, text: string, api: Api): void {
  const at = text.lastIndexOf(api === "generate" ? '"meta_info"' : '"usage"');
  if (at < 0) return;
  const usage = text.slice(at, at + 2000);
  const typed = api === "responses" || api === "messages";
  record.completionTokens = count(usage, typed ? '"output_tokens"' : '"completion_tokens"') ?? record.completionTokens;
  record.promptTokens = count(usage, typed ? '"input_tokens"' : '"prompt_tokens"') ?? record.promptTokens;
  record.cachedTokens =
    count(usage, api === "messages" ? '"cache_read_input_tokens"' : '"cached_tokens"') ?? record.cachedTokens;
}

function count(text: string, key: string): number | undefined {
  const at = text.indexOf(key);
  if (at < 0) return undefined;
  // By hand: a pattern makes an array of what it finds.
  let place = at + key.length;
  while (text.charCodeAt(place) <= SPACE) place++;
  if (text.charCodeAt(place) !== COLON) return undefined;
  do place++;
  while (text.charCodeAt(place) <= SPACE);
  let number: number | undefined;
  for (let digit = text.charCodeAt(place) - ZERO; digit >= 0 && digit <= 9; digit = text.charCodeAt(place) - ZERO) {
    number = (number ?? 0) * 10 + digit;
    place++;
  }
  return number;
}
