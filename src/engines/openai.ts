import { splicePieces } from "../json/splice.ts";
import type { Dialect, GenerationRequest, LegRequest, SplitPlan } from "./dialect.ts";
import { engineModelOf } from "./model.ts";
import { ownedMembers } from "./owned.ts";
import { refuseEndpoint } from "./refuse.ts";
import { noHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";

/** The one leg of an aggregated worker, whatever its engine: the client's body without the router's members, under the engines' model name. */
export function aggregatedLeg(request: GenerationRequest): LegRequest {
  return {
    path: request.path,
    body: splicePieces(request.doc, { drop: ownedMembers, set: { model: engineModelOf(request) } }),
  };
}

/** Any server of the OpenAI API. It has no prefill leg: every API is refused here, and goes to `aggregatedLeg` instead. */
export const openai: Dialect = {
  engine: "openai",
  concurrent: false,
  splits: new Set(),
  refuse: refuseEndpoint,
  plan: planNothing,
  ...terminalsWithout(noHandoffMembers),
};

function planNothing(request: GenerationRequest): SplitPlan {
  throw refuseEndpoint(request);
}
