import type { Failure } from "../errors/failure.ts";
import { rawValue, readBoolean, readNumber, readString } from "../json/member.ts";
import type { JsonObject } from "../json/scan.ts";
import type { Api } from "../sse/api.ts";
import { asksFor, asksPromptLogprobs, isGiven } from "./asks.ts";
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
  if (asksFor(doc, "use_beam_search")) return refuseMember("use_beam_search");
  const hidden = refuseHidden(request);
  if (hidden !== undefined) return hidden;
  if (api !== "chat" && api !== "completions") return undefined;
  // A chat's echo makes the engine compute the prompt's logprobs, asked for or not: decode then computes the whole prompt again (seen on a
  // real pair).
  if (api === "chat" && asksFor(doc, "echo")) return refuseMember("echo");
  if (stream && asksPromptLogprobs(doc) && readNumber(doc, "prompt_logprobs") !== 0) {
    return badRequest("prompt_logprobs", '"prompt_logprobs" are not available with "stream": true');
  }
  return undefined;
}

const TOKEN_IDS = /^\[\s*(?:"?-?\d+"?\s*(?:,\s*"?-?\d+"?\s*)*)?\]$/;
const STRINGS = /^\[\s*(?:"(?:[^"\\]|\\.)*"\s*(?:,\s*"(?:[^"\\]|\\.)*"\s*)*)?\]$/;
const TEXT = /^"/;

/**
 * Members that prefill's one-token leg drops or replaces (`vllmPrefillLeg`), as vLLM's own checks want them: decode would refuse the
 * others after prefill, which does not see them, has filled blocks that nobody then fetches.
 */
function refuseHidden({ api, doc, stream }: GenerationRequest): Failure | undefined {
  for (const param of LIMITS) {
    if (!isGiven(doc, param)) continue;
    const limit = readNumber(doc, param) ?? Number(readString(doc, param) ?? Number.NaN);
    if (!Number.isInteger(limit)) return badRequest(param, `"${param}" must be an integer`);
    if (limit < 1) return badRequest(param, `"${param}" is ${limit}, expected at least 1`);
  }
  if (isGiven(doc, "stream_options") && !stream && (api === "chat" || api === "completions"))
    return badRequest("stream_options", '"stream_options" are only available with "stream": true');
  if (api === "chat" && (readNumber(doc, "top_logprobs") ?? 0) !== 0 && readBoolean(doc, "logprobs") !== true)
    return badRequest("top_logprobs", '"top_logprobs" are only available with "logprobs": true');
  return (
    refuseShape(doc, "stop_token_ids", "a list of integers", TOKEN_IDS) ??
    refuseShape(doc, "stop", "a string or a list of strings", TEXT, STRINGS) ??
    refuseShape(doc, "stop_sequences", "a list of strings", STRINGS)
  );
}

function refuseShape(
  doc: JsonObject,
  param: string,
  wanted: string,
  ...shapes: readonly RegExp[]
): Failure | undefined {
  const raw = isGiven(doc, param) ? rawValue(doc, param) : undefined;
  if (raw === undefined || shapes.some((shape) => shape.test(raw))) return undefined;
  return badRequest(param, `"${param}" must be ${wanted}`);
}
