import type { JsonObject } from "../json/scan.ts";
import type { PrefillOutput } from "../prefill/output.ts";
import { asksEchoedPrompt } from "./asks.ts";
import type { EngineAnswer, GenerationRequest } from "./dialect.ts";
import { vllmInputLogprobs } from "./input-logprobs.ts";
import { judgeTail } from "./judge-tail.ts";

/** The tail of vLLM's concurrent connectors: as for every engine, with vLLM's places for the prompt's logprobs. */
export function judgeVllmTail(request: GenerationRequest, answer: EngineAnswer): PrefillOutput {
  const { api, wantsInputLogprobs } = request;
  return judgeTail(api, answer, wantsInputLogprobs ? readLogprobs : undefined);

  function readLogprobs(doc: JsonObject): unknown {
    return vllmInputLogprobs(api, doc, asksEchoedPrompt(request));
  }
}
