import { hasMember } from "../json/member.ts";
import { splice } from "../json/splice.ts";
import type { GenerationRequest, LegRequest } from "./dialect.ts";
import { engineModelOf } from "./model.ts";
import { ownedAnd, ownedMembers } from "./owned.ts";

// What a leg of one token must not carry (wire: vLLM, NIXL). Each has made engines refuse, run on or stop without a hand-off:
// stream_options without stream, a minimum above the limit, samples beside the first, a stop on the token that is thrown away.
const prefillDrops = ownedAnd(
  "stream_options",
  "min_tokens",
  "min_completion_tokens",
  "n",
  "best_of",
  "stop",
  "stop_sequences",
  "stop_token_ids",
  "logprobs",
  "top_logprobs",
);

// Decode crashes on it; prefill's are merged into its answer instead.
const decodeDropsLogprobs = ownedAnd("prompt_logprobs");

/** What a connector adds to the common shape. */
export interface VllmPrefillExtras {
  /** Mooncake: a stop on the first token would free the blocks, and decode waits 480 s for them. */
  minTokens?: "1";
  headers?: Record<string, string>;
}

/**
 * vLLM's prefill leg: the client's body cut to one unstreamed token. Everything that is part of the prompt (messages, tools,
 * template arguments, media, LoRA name) stays, as another prompt on the two legs kills decode; so does `prompt_logprobs`,
 * which only prefill can answer.
 *
 * @param kvTransferParams the connector's `kv_transfer_params` as JSON text
 */
export function vllmPrefillLeg(
  request: GenerationRequest,
  kvTransferParams: string,
  extras: VllmPrefillExtras = {},
): LegRequest {
  const { api, doc, path } = request;
  const body = splice(doc, {
    drop: prefillDrops,
    set: {
      model: engineModelOf(request),
      stream: "false",
      max_tokens: "1",
      max_completion_tokens: hasMember(doc, "max_completion_tokens") ? "1" : undefined,
      // The only limit that /v1/responses reads: without it prefill would write the whole answer.
      max_output_tokens: api === "responses" || hasMember(doc, "max_output_tokens") ? "1" : undefined,
      min_tokens: extras.minTokens,
      kv_transfer_params: kvTransferParams,
    },
  });
  return extras.headers === undefined ? { path, body } : { path, body, headers: extras.headers };
}

/** vLLM's decode leg: the client's own body and the hand-off, as the text it came as. */
export function vllmDecodeLeg(request: GenerationRequest, handoff: string): LegRequest {
  return {
    path: request.path,
    body: splice(request.doc, {
      drop: request.wantsInputLogprobs ? decodeDropsLogprobs : ownedMembers,
      set: { model: engineModelOf(request), kv_transfer_params: handoff },
    }),
  };
}
