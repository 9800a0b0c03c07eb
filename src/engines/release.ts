import { hasMember, readNumber } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import { splicePieces } from "../json/splice.ts";
import type { Api } from "../sse/api.ts";
import { objectIn } from "./answer.ts";
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

/**
 * Each limit that the client sent, as 1; the API's own where it sent none. A budget for thinking has to be less than the limit (messages),
 * and is part of the prompt's template: there the limit is the least that is not refused, and the leg is closed after two seconds.
 */
function oneToken(api: Api, doc: JsonObject): Record<string, string | undefined> {
  const newer = hasMember(doc, "max_completion_tokens");
  const output = hasMember(doc, "max_output_tokens");
  const older = hasMember(doc, "max_tokens");
  const none = !newer && !output && !older;
  const thinking = api === "messages" ? objectIn(doc, "thinking") : undefined;
  const least = 1 + ((thinking && readNumber(thinking, "budget_tokens")) ?? 0);
  return {
    max_tokens: older || (none && api !== "responses") ? String(least) : undefined,
    max_completion_tokens: newer ? "1" : undefined,
    max_output_tokens: output || (none && api === "responses") ? "1" : undefined,
  };
}
