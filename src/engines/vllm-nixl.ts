import { Failure } from "../errors/failure.ts";
import { rawValue } from "../json/member.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import { finishReasonOf } from "./answer.ts";
import { asksEchoedPrompt, asksMinimum, asksOutputLogprobs } from "./asks.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
import { invalidHandoff } from "./failures.ts";
import { vllmInputLogprobs } from "./input-logprobs.ts";
import { promptTokensDetails } from "./prompt-usage.ts";
import { releaseLeg } from "./release.ts";
import { readSequential } from "./sequential-answer.ts";
import { vllmHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";
import { checkNixlHandoff, isNoHandoff } from "./vllm-handoff.ts";
import { vllmDecodeLeg, vllmPrefillLeg } from "./vllm-prefill-leg.ts";
import { refuseVllm, vllmSplits } from "./vllm-refuse.ts";

const ASK_FOR_HANDOFF =
  '{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}';

/**
 * vLLM with the NIXL connector: prefill first, then decode with prefill's `kv_transfer_params`, which are good for one read. Decode
 * samples the first token itself, so prefill's is thrown away, also when it stops.
 */
export const vllmNixl: Dialect = {
  engine: "vllm",
  concurrent: false,
  splits: vllmSplits,
  refuse: refuseVllm,
  plan: planNixl,
  ...terminalsWithout(vllmHandoffMembers),
};

function planNixl(request: GenerationRequest, _prefill: LegTarget, _id: string): SplitPlan {
  return new NixlPlan(request);
}

class NixlPlan implements SplitPlan {
  readonly prefill: LegRequest;
  readonly #request: GenerationRequest;

  constructor(request: GenerationRequest) {
    this.#request = request;
    this.prefill = vllmPrefillLeg(request, ASK_FOR_HANDOFF);
  }

  judge(answer: EngineAnswer): PrefillOutput {
    const { api, doc: body, wantsInputLogprobs } = this.#request;
    const read = readSequential(api, answer);
    if (read instanceof Failure) return { error: read };
    const { doc, word } = read;
    const output: EngineOutput = {};
    const details = promptTokensDetails(api, doc);
    if (details !== undefined) output.completionUsage = { promptTokensDetails: details };

    const text = rawValue(doc, "kv_transfer_params");
    const value: unknown = text === undefined ? undefined : JSON.parse(text);
    if (isNoHandoff(value)) {
      const finishReason = finishReasonOf(word);
      if (finishReason === undefined || finishReason.kind === "length") {
        return { error: invalidHandoff('Prefill gave no usable hand-off: "kv_transfer_params" is missing') };
      }
      // Its one token was made without them, so this end is not the one that the client's own request would have had.
      if (asksMinimum(body) || asksOutputLogprobs(body)) {
        return {
          error: invalidHandoff(
            "Prefill ended without a hand-off, but was not asked for the client's minimum or logprobs",
          ),
        };
      }
      output.finishReason = finishReason;
      output.raw = answer.text;
      return { data: output };
    }
    try {
      checkNixlHandoff(value);
    } catch (error) {
      return { error };
    }
    output.disaggregatedParams = { value, text: text! };
    if (wantsInputLogprobs) output.inputLogprobs = vllmInputLogprobs(api, doc, asksEchoedPrompt(this.#request));
    return { data: output };
  }

  decode(handoff: RawJson): LegRequest {
    checkNixlHandoff(handoff.value);
    return vllmDecodeLeg(this.#request, handoff.text);
  }

  release(handoff: RawJson): LegRequest {
    checkNixlHandoff(handoff.value);
    return releaseLeg(this.#request, { kv_transfer_params: handoff.text });
  }
}
