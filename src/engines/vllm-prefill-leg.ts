import { hasMember } from "../json/member.ts";
import { splicePieces } from "../json/splice.ts";
import { asksEchoedPrompt } from "./asks.ts";
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
  // Refused without logprobs.
  "logprob_token_ids",
);

const ECHOED: ReadonlySet<string> = new Set(["logprobs", "top_logprobs", "logprob_token_ids"]);
const prefillDropsEchoing: ReadonlySet<string> = new Set([...prefillDrops].filter((key) => !ECHOED.has(key)));

// Decode crashes on it; prefill's are merged into its answer instead.
const decodeDropsLogprobs = ownedAnd("prompt_logprobs");

/** What a connector adds to the common shape. */
export interface VllmPrefillExtras {
  /** Mooncake: a stop on the first token would free the blocks, and decode waits 480 s for them. */
  minTokens?: "1";
  /** The same where an API reads no minimum (responses, seen on 0.32): the end of the text does not end it. */
  ignoreEos?: "true" | undefined;
  /** Push, responses: the engine's id of the request, as JSON text. */
  requestId?: string | undefined;
  headers?: Record<string, string>;
}

/**
 * vLLM's prefill leg: the client's body cut to one unstreamed token. Everything that is part of the prompt (messages, tools,
 * template arguments, media, LoRA name) stays, as another prompt on the two legs kills decode; so does `prompt_logprobs`,
 * which only prefill can answer, and an `echo` with logprobs, of which prefill answers the prompt's part.
 *
 * @param kvTransferParams the connector's `kv_transfer_params` as JSON text
 */
export function vllmPrefillLeg(
  request: GenerationRequest,
  kvTransferParams: string,
  extras: VllmPrefillExtras = {},
): LegRequest {
  const { api, doc, path } = request;
  const echoed = asksEchoedPrompt(request);
  const body = splicePieces(doc, {
    drop: echoed ? prefillDropsEchoing : prefillDrops,
    set: {
      model: engineModelOf(request),
      stream: "false",
      // The engine's own way to ask for an echo and nothing else (it computes one token all the same, and gives a hand-off).
      max_tokens: echoed ? "0" : "1",
      max_completion_tokens: hasMember(doc, "max_completion_tokens") ? "1" : undefined,
      // The only limit that /v1/responses reads: without it prefill would write the whole answer.
      max_output_tokens: api === "responses" || hasMember(doc, "max_output_tokens") ? "1" : undefined,
      min_tokens: extras.minTokens,
      ignore_eos: extras.ignoreEos,
      request_id: extras.requestId,
      kv_transfer_params: kvTransferParams,
    },
  });
  return extras.headers === undefined ? { path, body } : { path, body, headers: extras.headers };
}

/** vLLM's decode leg: the client's own body and the hand-off, as the text it came as. */
export function vllmDecodeLeg(request: GenerationRequest, handoff: string, requestId?: string): LegRequest {
  return {
    path: request.path,
    body: splicePieces(request.doc, {
      drop: request.wantsInputLogprobs ? decodeDropsLogprobs : ownedMembers,
      set: {
        model: engineModelOf(request),
        // With logprobs an echo needs those of the prompt, which decode has not computed.
        echo: asksEchoedPrompt(request) ? "false" : undefined,
        request_id: requestId,
        kv_transfer_params: handoff,
      },
    }),
  };
}
