import { asksInputLogprobs, asksSingleToken } from "../../src/engines/asks.ts";
import type { EngineAnswer, GenerationRequest, LegTarget } from "../../src/engines/dialect.ts";
import { rawValue, readBoolean, readScalar } from "../../src/json/member.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { Api } from "../../src/sse/api.ts";

const PATHS: Record<Api, string> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  generate: "/generate",
};

/** A client's body as the routes hand it on. */
export function request(body: string, api: Api = "chat", over: Partial<GenerationRequest> = {}): GenerationRequest {
  const doc = scanObject(body);
  const options = JSON.parse(rawValue(doc, "stream_options") ?? "null") as
    | { include_usage?: boolean }
    | null
    | undefined;
  return {
    api,
    path: PATHS[api],
    doc,
    stream: readBoolean(doc, "stream") === true,
    includeUsage: options?.include_usage === true,
    model: String(readScalar(doc, "model")),
    engineModel: undefined,
    singleToken: asksSingleToken(doc),
    wantsInputLogprobs: asksInputLogprobs(api, doc),
    ...over,
  };
}

export const target: LegTarget = { bootstrapHost: "[::1]", bootstrapPort: 8998, dpSize: 1 };

export function answer(body: unknown, over: Partial<EngineAnswer> = {}): EngineAnswer {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status: 200, headers: new Headers(), text, truncated: false, ...over };
}

/** A good one-token answer of a prefill leg. */
export function chatAnswer(finish: unknown, more: object = {}) {
  return {
    id: "p",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "P" }, finish_reason: finish }],
    usage: { prompt_tokens: 12, completion_tokens: 1, total_tokens: 13, prompt_tokens_details: { cached_tokens: 8 } },
    ...more,
  };
}
