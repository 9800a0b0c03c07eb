import type { Api } from "../sse/api.ts";
import type { RequestRecord } from "../telemetry/record.ts";

// Sticky behind a key that a native search has found: patterns with the keys in them took five times as long.
const COUNT = /\s*:\s*(\d+)/y;

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
  COUNT.lastIndex = at + key.length;
  const found = COUNT.exec(text);
  return found === null ? undefined : Number(found[1]);
}
