import type { Ask } from "./ask.ts";
import type { Sample } from "./generate.ts";
import type { JsonRecord } from "./json.ts";
import type { SimulatedEngineName } from "./options.ts";

export interface Counts {
  prompt: number;
  completion: number;
  cached: number;
  /** Put into the cache by this engine, whole blocks only; vLLM alone tells. */
  created: number | undefined;
  reasoning: number;
}

/** What an answer cost. A prompt counts once, however many samples it has. */
export function countUsage(ask: Ask, samples: readonly Sample[], cached: number, created: number | undefined): Counts {
  const prompt = ask.prompts.reduce((sum, one) => sum + one.tokens, 0);
  let completion = 0;
  let reasoning = 0;
  for (const sample of samples) {
    completion += sample.tokens.length;
    for (const token of sample.tokens) if (token.channel === "reasoning") reasoning += 1;
  }
  return { prompt, completion, cached, created, reasoning };
}

/** Chat and completions. */
export function openaiUsage(counts: Counts): JsonRecord {
  return {
    prompt_tokens: counts.prompt,
    total_tokens: counts.prompt + counts.completion,
    completion_tokens: counts.completion,
    prompt_tokens_details: { cached_tokens: counts.cached, created_cache_tokens: counts.created },
  };
}

/** `/v1/responses`. */
export function responsesUsage(counts: Counts): JsonRecord {
  return {
    input_tokens: counts.prompt,
    input_tokens_details: { cached_tokens: counts.cached, cache_write_tokens: counts.created },
    output_tokens: counts.completion,
    output_tokens_details: { reasoning_tokens: counts.reasoning },
    total_tokens: counts.prompt + counts.completion,
  };
}

/** `/v1/messages`. vLLM counts what was read from a cache or written to one apart from `input_tokens`, SGLang as a part of them. */
export function messagesUsage(counts: Counts, engine: SimulatedEngineName): JsonRecord {
  return {
    input_tokens: engine === "vllm" ? counts.prompt - counts.cached - (counts.created ?? 0) : counts.prompt,
    output_tokens: counts.completion,
    cache_creation_input_tokens: counts.created,
    cache_read_input_tokens: counts.cached,
  };
}
