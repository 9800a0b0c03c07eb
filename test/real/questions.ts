import type { Api } from "../../src/sse/api.ts";

export const paths: Readonly<Record<Exclude<Api, "generate">, string>> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};

export interface Question {
  name: string;
  api: Exclude<Api, "generate">;
  /** Beside `model`, `stream` and the prompt, which differs with every run so that no cache has it. */
  body: Record<string, unknown>;
  /** Prompt text of about so many characters. */
  length?: number;
  only?: "stream" | "buffered";
  /** Its usage is not compared: one server counts the cache of its last sample, which has been asked for apart here. */
  apart?: boolean;
}

const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Weather in a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

export const questions: readonly Question[] = [
  { name: "a short chat", api: "chat", body: { max_tokens: 24, min_tokens: 2 } },
  { name: "a chat to its own end", api: "chat", body: { max_tokens: 64 } },
  { name: "a long prompt", api: "chat", length: 1_500, body: { max_tokens: 24 } },
  { name: "one block exactly and one more", api: "completions", length: 64, body: { max_tokens: 8 } },
  { name: "a very long prompt", api: "completions", length: 1_950, body: { max_tokens: 16 } },
  { name: "a completion", api: "completions", body: { max_tokens: 32 } },
  { name: "one token", api: "completions", body: { max_tokens: 1 } },
  { name: "max_completion_tokens over max_tokens", api: "chat", body: { max_tokens: 3, max_completion_tokens: 9 } },
  { name: "a stop string", api: "completions", body: { max_tokens: 40, stop: ["e", "!"] } },
  { name: "stop_token_ids", api: "completions", body: { max_tokens: 40, stop_token_ids: [1, 2, 3] } },
  { name: "min_tokens", api: "completions", body: { max_tokens: 30, min_tokens: 20 } },
  { name: "ignore_eos", api: "completions", body: { max_tokens: 50, ignore_eos: true } },
  {
    name: "the greatest seed",
    api: "chat",
    body: { max_tokens: 16, seed: 9223372036854775807n, temperature: 0.9 },
  },
  { name: "a seed", api: "completions", body: { max_tokens: 16, seed: 7, temperature: 1 } },
  { name: "n of two with a seed", api: "chat", body: { max_tokens: 8, n: 2, seed: 11, temperature: 0.9 }, apart: true },
  {
    name: "usage asked for",
    api: "chat",
    body: { max_tokens: 5, stream_options: { include_usage: true } },
    only: "stream",
  },
  {
    name: "usage that runs along",
    api: "completions",
    body: { max_tokens: 5, stream_options: { include_usage: true, continuous_usage_stats: true } },
    only: "stream",
  },
  { name: "logprobs", api: "chat", body: { max_tokens: 6, logprobs: true, top_logprobs: 3 } },
  { name: "logprobs", api: "completions", body: { max_tokens: 6, logprobs: 2 } },
  { name: "prompt_logprobs", api: "chat", body: { max_tokens: 4, prompt_logprobs: 1 }, only: "buffered" },
  { name: "prompt_logprobs", api: "completions", body: { max_tokens: 4, prompt_logprobs: 1 }, only: "buffered" },
  { name: "echo", api: "completions", body: { max_tokens: 4, echo: true } },
  { name: "echo with logprobs", api: "completions", body: { max_tokens: 4, echo: true, logprobs: 1 } },
  { name: "tools, auto", api: "chat", body: { max_tokens: 40, tools, tool_choice: "auto" } },
  { name: "tool_choice required", api: "chat", body: { max_tokens: 60, tools, tool_choice: "required" } },
  {
    name: "tool_choice by name",
    api: "chat",
    body: { max_tokens: 60, tools, tool_choice: { type: "function", function: { name: "get_weather" } } },
  },
  { name: "tool_choice none", api: "chat", body: { max_tokens: 20, tools, tool_choice: "none" } },
  { name: "json_object", api: "chat", body: { max_tokens: 30, response_format: { type: "json_object" } } },
  {
    name: "json_schema",
    api: "chat",
    body: {
      max_tokens: 40,
      response_format: { type: "json_schema", json_schema: { name: "x", schema: tools[0]!.function.parameters } },
    },
  },
  { name: "a choice", api: "completions", body: { max_tokens: 8, structured_outputs: { choice: ["yes", "no"] } } },
  {
    name: "a regular expression",
    api: "completions",
    body: { max_tokens: 8, structured_outputs: { regex: "[a-c]{3}" } },
  },
  { name: "token ids", api: "completions", body: { max_tokens: 6, return_token_ids: true } },
  {
    name: "template arguments",
    api: "chat",
    body: { max_tokens: 6, chat_template_kwargs: { enable_thinking: false } },
  },
  {
    name: "nulls and unknown members",
    api: "chat",
    body: { max_tokens: 6, tools: null, stop: null, x_new: { a: [1, null] } },
  },
  { name: "a response", api: "responses", body: { max_output_tokens: 12 } },
  { name: "a long response", api: "responses", length: 900, body: { max_output_tokens: 6, instructions: "Be brief." } },
  { name: "a message", api: "messages", body: { max_tokens: 12 } },
  {
    name: "a message with a system text",
    api: "messages",
    length: 700,
    body: { max_tokens: 6, system: "Be brief.", stop_sequences: ["zz"] },
  },
];

let asked = 0;

/** The question as the text of a body. Each run has prompts of its own; both servers are asked with the same text. */
export function bodyOf(question: Question, model: string, stream: boolean): string {
  const { api, body, length = 40 } = question;
  const mark = `[${process.pid}-${asked++}-${Math.floor(performance.timeOrigin % 1e6)}] `;
  const text =
    mark + "the quick brown fox jumps over a lazy dog ".repeat(60).slice(0, Math.max(0, length - mark.length));
  const prompt =
    api === "completions"
      ? { prompt: text }
      : api === "responses"
        ? { input: text }
        : { messages: [{ role: "user", content: text }] };
  return printed({ model, temperature: 0, ...prompt, ...body, ...(stream ? { stream: true } : {}) });
}

/** JSON with integers that no double holds. */
function printed(body: Record<string, unknown>): string {
  return JSON.stringify(body, (_key, value) => (typeof value === "bigint" ? `bigint:${value}` : value)).replace(
    /"bigint:(\d+)"/g,
    "$1",
  );
}
