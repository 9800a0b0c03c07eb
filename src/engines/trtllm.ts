import { Failure } from "../errors/failure.ts";
import { rawValue, readBoolean } from "../json/member.ts";
import { type JsonObject, scanObject } from "../json/scan.ts";
import { splice, splicePieces } from "../json/splice.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";
import { choicesOf, finishReasonOf } from "./answer.ts";
import { asksInputLogprobs, asksPromptLogprobs } from "./asks.ts";
import type { Dialect, EngineAnswer, GenerationRequest, LegRequest, LegTarget, SplitPlan } from "./dialect.ts";
import { disaggRequestId } from "./disagg-request-id.ts";
import { contentFailure, invalidHandoff } from "./failures.ts";
import { engineModelOf } from "./model.ts";
import { ownedAnd, ownedMembers } from "./owned.ts";
import { promptTokensDetails } from "./prompt-usage.ts";
import { refuseForAll, refuseMember } from "./refuse.ts";
import { releaseLeg } from "./release.ts";
import { onlyPrompt } from "./sequences.ts";
import { readSequential } from "./sequential-answer.ts";
import { trtllmHandoffMembers } from "./terminal-answer.ts";
import { terminalsWithout } from "./terminals.ts";

const contextDrops = ownedAnd("stream_options");
const splits: ReadonlySet<Api> = new Set(["chat", "completions"]);

/**
 * TensorRT-LLM: the context leg first, then the generation leg with the context's `disaggregated_params`. Limits and stops stay on
 * the context leg: its finish reason decides whether there is anything left to generate.
 */
export const trtllm: Dialect = {
  engine: "trtllm",
  concurrent: false,
  splits,
  refuse,
  plan: planTrtllm,
  ...terminalsWithout(trtllmHandoffMembers),
};

function planTrtllm(request: GenerationRequest, _prefill: LegTarget, _id: string): SplitPlan {
  return new TrtllmPlan(withPlainPrompt(request));
}

/** A list of one prompt as that prompt: disaggregated serving takes a text or a flat list of token ids, and refuses every other list. */
function withPlainPrompt(request: GenerationRequest): GenerationRequest {
  const prompt = request.api === "completions" ? onlyPrompt(request.doc) : undefined;
  return prompt === undefined ? request : { ...request, doc: scanObject(splice(request.doc, { set: { prompt } })) };
}

function refuse(request: GenerationRequest): Failure | undefined {
  const refused = refuseForAll(request, splits);
  if (refused !== undefined) return refused;
  const { api, doc } = request;
  if (readBoolean(doc, "use_beam_search") === true) return refuseMember("use_beam_search");
  if (asksInputLogprobs(api, doc)) return refuseMember(asksPromptLogprobs(doc) ? "prompt_logprobs" : "echo");
  return undefined;
}

/** What of the context's answer goes to generation beside the hand-off itself. JSON text. */
interface Context {
  usage: string | undefined;
  promptTokenIds: string | undefined;
}

class TrtllmPlan implements SplitPlan {
  readonly prefill: LegRequest;
  readonly #request: GenerationRequest;
  #context: Context = { usage: undefined, promptTokenIds: undefined };

  constructor(request: GenerationRequest) {
    this.#request = request;
    const params = `{"request_type":"context_only","disagg_request_id":${disaggRequestId()},"schedule_style":0}`;
    this.prefill = {
      path: request.path,
      body: splicePieces(request.doc, {
        drop: contextDrops,
        set: { model: engineModelOf(request), stream: "false", disaggregated_params: params },
      }),
    };
  }

  judge(answer: EngineAnswer): PrefillOutput {
    const { api, singleToken } = this.#request;
    const read = readSequential(api, answer);
    if (read instanceof Failure) return { error: read };
    const { doc, word } = read;
    if (word === "timeout") {
      return { error: contentFailure(answer, { message: "The context request timed out in the engine" }) };
    }
    const choices = choicesOf(doc);
    if (choices.length !== 1) {
      return { error: invalidHandoff(`Prefill answered with ${choices.length} choices, expected 1`) };
    }
    const output: EngineOutput = {};
    const details = promptTokensDetails(api, doc);
    if (details !== undefined) output.completionUsage = { promptTokensDetails: details };
    const finishReason = finishReasonOf(word);
    if (finishReason !== undefined) output.finishReason = finishReason;
    if (singleToken || (finishReason !== undefined && finishReason.kind !== "length")) {
      output.raw = answer.text;
      if (singleToken) output.final = true;
      return { data: output };
    }
    const handoff = handoffOf(choices[0]!);
    if (handoff instanceof Failure) return { error: handoff };
    output.disaggregatedParams = handoff;
    this.#context = { usage: present(doc, "usage"), promptTokenIds: present(doc, "prompt_token_ids") };
    return { data: output };
  }

  decode(handoff: RawJson): LegRequest {
    const request = this.#request;
    return {
      path: request.path,
      body: splicePieces(request.doc, {
        drop: ownedMembers,
        set: { model: engineModelOf(request), ...this.#generationMembers(handoff) },
      }),
    };
  }

  release(handoff: RawJson): LegRequest {
    return releaseLeg(this.#request, this.#generationMembers(handoff));
  }

  /** Generation must not tokenize again: its prompt are the ids that the context has put into the cache. */
  #generationMembers(handoff: RawJson): Record<string, string> {
    const { usage, promptTokenIds } = this.#context;
    const wrong = wrongHandoff(handoff.value);
    if (wrong !== undefined) throw wrong;
    const params = splice(scanObject(handoff.text), {
      set: { request_type: '"generation_only"', ctx_usage: usage },
    });
    const members: Record<string, string> = {};
    if (promptTokenIds !== undefined) {
      members[this.#request.api === "completions" ? "prompt" : "prompt_token_ids"] = promptTokenIds;
    }
    members.disaggregated_params = params;
    return members;
  }
}

function handoffOf(choice: JsonObject): RawJson | Failure {
  const text = rawValue(choice, "disaggregated_params");
  const value: unknown = text === undefined ? undefined : JSON.parse(text);
  return wrongHandoff(value) ?? { value, text: text! };
}

/** An object with both ids. Their values are the engines' own: up to 63 bits, so only their presence is looked at. */
function wrongHandoff(value: unknown): Failure | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return invalidHandoff('Prefill gave no usable hand-off: "disaggregated_params" is missing');
  }
  const { ctx_request_id, disagg_request_id } = value as Record<string, unknown>;
  if (ctx_request_id === undefined || ctx_request_id === null) {
    return invalidHandoff('Prefill gave no usable hand-off: "ctx_request_id" is missing');
  }
  if (disagg_request_id === undefined || disagg_request_id === null) {
    return invalidHandoff('Prefill gave no usable hand-off: "disagg_request_id" is missing');
  }
  return undefined;
}

function present(doc: JsonObject, key: string): string | undefined {
  const raw = rawValue(doc, key);
  return raw === "null" ? undefined : raw;
}
