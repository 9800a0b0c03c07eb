import { Failure } from "../errors/failure.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
import { judgeVllmTail } from "./judge-vllm-tail.ts";
import { vllmHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";
import { vllmDecodeLeg, vllmPrefillLeg } from "./vllm-prefill-leg.ts";
import { refuseVllm, vllmSplits } from "./vllm-refuse.ts";

const EXPECT_PUSH =
  '{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}';

/** The connector's side channel when nothing else is configured (contract section 2). */
const DEFAULT_KV_PORT = 5600;

/**
 * vLLM with the NIXL push connector: both legs at once, with the same path and the same `x-request-id`. Where decode finds prefill
 * is configured, not asked.
 */
export const vllmPush: Dialect = {
  engine: "vllm",
  concurrent: true,
  splits: vllmSplits,
  refuse: refuseVllm,
  plan: planPush,
  ...terminalsWithout(vllmHandoffMembers),
};

/** `id` must be what both legs carry as `x-request-id`. */
function planPush(request: GenerationRequest, prefill: LegTarget, id: string): SplitPlan {
  return new PushPlan(request, prefill, id);
}

class PushPlan implements SplitPlan {
  readonly prefill: LegRequest;
  readonly early: EngineOutput;
  readonly #request: GenerationRequest;
  readonly #requestId: string | undefined;

  constructor(request: GenerationRequest, target: LegTarget, id: string) {
    const { engineId, kvHost, kvPort = DEFAULT_KV_PORT, tpSize = 1, ppSize = 1 } = target;
    if (engineId === undefined || kvHost === undefined) {
      throw new Failure("internal", {
        status: 500,
        stage: "router",
        message: 'A "nixl-push" prefill worker has no "engineId" or "kvHost"',
      });
    }
    this.#request = request;
    // The engines pair legs by their own ids of them, which they make from `x-request-id`, but for responses from the body (seen on a
    // real pair: without it decode waits for blocks that are never its own).
    this.#requestId = request.api === "responses" ? `"resp_${id}"` : undefined;
    this.prefill = vllmPrefillLeg(request, EXPECT_PUSH, { requestId: this.#requestId });
    const value = {
      do_remote_decode: false,
      do_remote_prefill: true,
      remote_engine_id: engineId,
      remote_host: kvHost,
      remote_port: kvPort,
      tp_size: tpSize,
      pp_size: ppSize,
      remote_request_id: id,
    };
    this.early = { disaggregatedParams: { value, text: JSON.stringify(value) }, early: true };
  }

  judge(answer: EngineAnswer): PrefillOutput {
    return judgeVllmTail(this.#request, answer);
  }

  decode(handoff: RawJson): LegRequest {
    return vllmDecodeLeg(this.#request, handoff.text, this.#requestId);
  }
}
