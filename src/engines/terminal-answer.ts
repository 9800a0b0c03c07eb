import { Failure } from "../errors/failure.ts";
import { type JsonObject, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import type { EngineOutput } from "../prefill/output.ts";
import { choicesOf } from "./answer.ts";
import type { GenerationRequest } from "./dialect.ts";
import { clientModelFor } from "./model.ts";

/** The members of an engine's answer that are for the router alone. */
export interface HandoffMembers {
  /** At top level. */
  answer: ReadonlySet<string>;
  /** In each choice. */
  choice: ReadonlySet<string>;
}

export const noHandoffMembers: HandoffMembers = { answer: new Set(), choice: new Set() };

/** vLLM. `prompt_token_ids` stay: there they come only when the client asked for them. */
export const vllmHandoffMembers: HandoffMembers = {
  answer: new Set(["kv_transfer_params", "ec_transfer_params"]),
  choice: new Set(),
};

export const trtllmHandoffMembers: HandoffMembers = {
  answer: new Set(["prompt_token_ids", "disaggregated_params"]),
  choice: new Set(["disaggregated_params"]),
};

/**
 * Prefill's answer where it is the client's (contract section 5): without the hand-off and under the client's name for the model,
 * everything else byte for byte.
 */
export function terminalAnswer(request: GenerationRequest, output: EngineOutput, members: HandoffMembers): string {
  return terminalDoc(request, output, members).text;
}

/** The same, as the spans of its members. */
export function terminalDoc(request: GenerationRequest, output: EngineOutput, members: HandoffMembers): JsonObject {
  const { raw } = output;
  if (raw === undefined) {
    throw new Failure("internal", {
      status: 500,
      stage: "prefill",
      message: "A terminal output came without its answer",
    });
  }
  let doc = scanObject(raw);
  if (members.choice.size > 0) {
    const choices = choicesOf(doc);
    // From the last to the first, so that an edit never moves the spans of those still to come.
    for (let i = choices.length - 1; i >= 0; i--) {
      const choice = choices[i]!;
      doc = { ...doc, text: splice({ ...choice, text: doc.text }, { drop: members.choice }) };
    }
    if (choices.length > 0) doc = scanObject(doc.text);
  }
  return scanObject(splice(doc, { drop: members.answer, set: { model: clientModelFor(request, doc) } }));
}
