import { Failure } from "../errors/failure.ts";
import { jsonString } from "../json/text.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
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
      { minTokens: "1", headers: { "x-data-parallel-rank": String(mooncake.rank) } },
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
    return judgeVllmTail(this.#request, answer);
  }

  decode(handoff: RawJson): LegRequest {
    return vllmDecodeLeg(this.#request, handoff.text);
  }
}
