import type { Failure } from "../errors/failure.ts";
import { readBoolean, readNumber } from "../json/member.ts";
import type { Api } from "../sse/api.ts";
import { asksEcho, asksPromptLogprobs } from "./asks.ts";
import type { GenerationRequest } from "./dialect.ts";
import { badRequest } from "./failures.ts";
import { refuseForAll, refuseMember } from "./refuse.ts";

export const vllmSplits: ReadonlySet<Api> = new Set(["chat", "completions", "responses", "messages"]);

const LIMITS = ["max_tokens", "max_completion_tokens", "max_output_tokens"] as const;

/** What a vLLM pair cannot do, whatever its connector. */
export function refuseVllm(request: GenerationRequest): Failure | undefined {
  const refused = refuseForAll(request, vllmSplits);
  if (refused !== undefined) return refused;
  const { api, doc, stream } = request;
  // Beams are requests of the engine's own making, which carry no hand-off: decode would compute everything again.
  if (readBoolean(doc, "use_beam_search") === true) return refuseMember("use_beam_search");
  for (const param of LIMITS) {
    const limit = readNumber(doc, param);
    // Decode would refuse it after prefill, whose one-token leg hides it, has filled blocks that nobody then fetches.
    if (limit !== undefined && limit < 1) return badRequest(param, `"${param}" is ${limit}, expected at least 1`);
  }
  if (api !== "chat" && api !== "completions") return undefined;
  // A chat's echo makes the engine compute the prompt's logprobs, asked for or not: decode then computes the whole prompt again (seen on a
  // real pair).
  if (api === "chat" && asksEcho(doc)) return refuseMember("echo");
  if (stream && asksPromptLogprobs(doc) && readNumber(doc, "prompt_logprobs") !== 0) {
    return badRequest("prompt_logprobs", '"prompt_logprobs" are not available with "stream": true');
  }
  return undefined;
}
