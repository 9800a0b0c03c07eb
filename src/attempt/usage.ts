import type { Api } from "../sse/api.ts";
import type { RequestRecord } from "../telemetry/record.ts";

const COMPLETION = /"(?:completion_tokens|output_tokens)"\s*:\s*(\d+)/;
const PROMPT = /"(?:prompt_tokens|input_tokens)"\s*:\s*(\d+)/;
const CACHED = /"(?:cached_tokens|cache_read_input_tokens)"\s*:\s*(\d+)/;

/**
 * Token counts of a usage event or a buffered answer, for metrics and the log only. Looked for in the text from its end, where usage
 * stands; a quote inside a string is escaped, so these marks are members. `/generate` has them in `meta_info`.
 */
export function usageOf(record: RequestRecord, text: string, api: Api): void {
  const at = text.lastIndexOf(api === "generate" ? '"meta_info"' : '"usage"');
  if (at < 0) return;
  const usage = text.slice(at, at + 2000);
  record.completionTokens = count(COMPLETION, usage) ?? record.completionTokens;
  record.promptTokens = count(PROMPT, usage) ?? record.promptTokens;
  record.cachedTokens = count(CACHED, usage) ?? record.cachedTokens;
}

function count(pattern: RegExp, text: string): number | undefined {
  const found = pattern.exec(text);
  return found === null ? undefined : Number(found[1]);
}
