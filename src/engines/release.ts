import { hasMember } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import { splicePieces } from "../json/splice.ts";
import type { Api } from "../sse/api.ts";
import { asksEchoedPrompt } from "./asks.ts";
import type { GenerationRequest, LegRequest } from "./dialect.ts";
import { engineModelOf } from "./model.ts";
import { ownedAnd } from "./owned.ts";

const releaseDrops = ownedAnd("stream_options", "min_tokens", "min_completion_tokens", "prompt_logprobs");

/**
 * The release request (contract section 6): decode's body cut to one token, with the hand-off, so that an engine fetches the
 * blocks that nobody else will and prefill can free them. The prompt's bytes are the client's: fewer blocks than the prompt
 * needs would kill decode.
 *
 * @param handoff decode's members that carry the hand-off, as JSON text
 */
export function releaseLeg(request: GenerationRequest, handoff: Readonly<Record<string, string>>): LegRequest {
  const { api, doc, path } = request;
  return {
    path,
    body: splicePieces(doc, {
      drop: releaseDrops,
      set: {
        model: engineModelOf(request),
        stream: "false",
        // Nobody reads it, and with logprobs it would be the prompt's too, on which decode fails.
        echo: asksEchoedPrompt(request) ? "false" : undefined,
        ...oneToken(api, doc),
        ...handoff,
      },
    }),
  };
}

/** Each limit that the client sent, as 1; the API's own where it sent none. */
function oneToken(api: Api, doc: JsonObject): Record<string, string | undefined> {
  const newer = hasMember(doc, "max_completion_tokens");
  const output = hasMember(doc, "max_output_tokens");
  const older = hasMember(doc, "max_tokens");
  const none = !newer && !output && !older;
  return {
    max_tokens: older || (none && api !== "responses") ? "1" : undefined,
    max_completion_tokens: newer ? "1" : undefined,
    max_output_tokens: output || (none && api === "responses") ? "1" : undefined,
  };
}
