import { Failure } from "../errors/failure.ts";
import { jsonString } from "../json/text.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";
import { endingOf, scanAnswer } from "./answer.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
import { nobodysFault } from "./failures.ts";
import { judgeVllmTail } from "./judge-vllm-tail.ts";
import { vllmHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";
import { vllmDecodeLeg, vllmPrefillLeg } from "./vllm-prefill-leg.ts";
import { refuseVllm, vllmSplits } from "./vllm-refuse.ts";

/**
 * vLLM with the Mooncake connector: both legs at once, paired by a transfer id made from the attempt's id. Decode asks prefill's
 * bootstrap server for the blocks; prefill's own `kv_transfer_params` is null by design.
 */
export const vllmMooncake: Dialect = {
  engine: "vllm",
  concurrent: true,
  splits: vllmSplits,
  needsIntroduction,
  refuse: refuseVllm,
  plan: planMooncake,
  ...terminalsWithout(vllmHandoffMembers),
};

function needsIntroduction({ mooncake }: LegTarget): boolean {
  return mooncake === undefined;
}

/** @throws Failure `prefill_unreachable` while the worker's bootstrap server has not told its engine id: nothing was sent */
function planMooncake(request: GenerationRequest, prefill: LegTarget, id: string): SplitPlan {
  return new MooncakePlan(request, prefill, id);
}

/**
 * An answer that ended by itself, and not by its limit of one token: the engine then frees the blocks, and decode waits 480 s for them. The
 * minimum of one token keeps chats and completions from it, `ignore_eos` responses; /v1/messages reads neither (seen on 0.32). Any other
 * word may stand for the limit: a forced tool call is one, however short.
 */
function stopped(api: Api, text: string): boolean {
  const doc = api === "messages" ? scanAnswer(text) : undefined;
  const word = doc === undefined ? undefined : endingOf(api, doc);
  return word === "end_turn" || word === "stop_sequence";
}

class MooncakePlan implements SplitPlan {
  readonly prefill: LegRequest;
  readonly early: EngineOutput;
  readonly #request: GenerationRequest;

  constructor(request: GenerationRequest, target: LegTarget, id: string) {
    const { mooncake } = target;
    if (mooncake === undefined) {
      throw new Failure("prefill_unreachable", {
        status: 502,
        stage: "prefill",
        kind: "refused",
        message: "The bootstrap server of the prefill worker has not told its engine id",
      });
    }
    this.#request = request;
    const transferId = `xfer-${id}`;
    this.prefill = vllmPrefillLeg(
      request,
      `{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":${jsonString(transferId)}}`,
      {
        minTokens: "1",
        ignoreEos: request.api === "responses" ? "true" : undefined,
        headers: { "x-data-parallel-rank": String(mooncake.rank) },
      },
    );
    const value = {
      do_remote_decode: false,
      do_remote_prefill: true,
      remote_bootstrap_addr: `http://${target.bootstrapHost}:${target.bootstrapPort}`,
      remote_engine_id: mooncake.engineId,
      transfer_id: transferId,
    };
    this.early = { disaggregatedParams: { value, text: JSON.stringify(value) }, early: true };
  }

  judge(answer: EngineAnswer): PrefillOutput {
    const { api } = this.#request;
    const output = judgeVllmTail(this.#request, answer);
    if (output.error === undefined && stopped(api, answer.text)) {
      return {
        error: nobodysFault("Prefill's one token ended the answer, and its blocks are gone"),
      };
    }
    return output;
  }

  decode(handoff: RawJson): LegRequest {
    return vllmDecodeLeg(this.#request, handoff.text);
  }
}
