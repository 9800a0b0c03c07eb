import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { streamText } from "ai";
import OpenAI from "openai";
import type { Api } from "../../src/sse/api.ts";

/** What a program that uses the library sees of one stream. */
export interface Seen {
  text: string;
  /** What it threw, or gave as an error part; undefined: the program takes the stream for a success. */
  raised: unknown;
  /** The finish reason it was told, whether or not something was raised. */
  finish: string | undefined;
}

/** One client library on one API. `base` is the address without a path; the headers go out with the request. */
export interface Library {
  name: string;
  api: Api;
  read(base: string, headers: Record<string, string>): Promise<Seen>;
}

const MODEL = "m";
const PROMPT = "hello";
/** Retries would hide what this is about; what the libraries write to the console is no part of it. */
const KEY = { apiKey: "k", maxRetries: 0, logLevel: "off" as const };
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

/** Reads to the end or to the error. `take` puts together what the program has. */
async function drain<T>(opened: PromiseLike<AsyncIterable<T>>, take: (item: T, seen: Seen) => void): Promise<Seen> {
  const seen: Seen = { text: "", raised: undefined, finish: undefined };
  try {
    for await (const item of await opened) take(item, seen);
  } catch (error) {
    seen.raised = error;
  }
  return seen;
}

function openAi(base: string, defaultHeaders: Record<string, string>): OpenAI {
  return new OpenAI({ ...KEY, baseURL: `${base}/v1`, defaultHeaders });
}

function compatible(base: string, headers: Record<string, string>) {
  return createOpenAICompatible({ apiKey: "k", name: "engine", baseURL: `${base}/v1`, headers });
}

async function readAiSdk(model: Parameters<typeof streamText>[0]["model"]): Promise<Seen> {
  const { fullStream } = streamText({ model, prompt: PROMPT, maxRetries: 0, onError: ignore });
  return drain(Promise.resolve(fullStream), (part, seen) => {
    if (part.type === "text-delta") seen.text += part.text;
    // An error part of null is an error part all the same.
    if (part.type === "error") seen.raised ??= part.error ?? new Error("an error part without an error");
    if (part.type === "finish") seen.finish = part.finishReason;
  });
}

export const openAiChat: Library = {
  name: "openai",
  api: "chat",
  read: (base, headers) =>
    drain(
      openAi(base, headers).chat.completions.create({
        model: MODEL,
        stream: true,
        messages: [{ role: "user", content: PROMPT }],
      }),
      (chunk, seen) => {
        const choice = chunk.choices?.[0];
        seen.text += choice?.delta?.content ?? "";
        seen.finish = choice?.finish_reason ?? seen.finish;
      },
    ),
};

export const aiSdkChat: Library = {
  name: "AI SDK",
  api: "chat",
  read: (base, headers) => readAiSdk(compatible(base, headers).chatModel(MODEL)),
};

const openAiCompletions: Library = {
  name: "openai",
  api: "completions",
  read: (base, headers) =>
    drain(openAi(base, headers).completions.create({ model: MODEL, stream: true, prompt: PROMPT }), (chunk, seen) => {
      const choice = chunk.choices?.[0];
      seen.text += choice?.text ?? "";
      seen.finish = choice?.finish_reason ?? seen.finish;
    }),
};

const aiSdkCompletions: Library = {
  name: "AI SDK",
  api: "completions",
  read: (base, headers) => readAiSdk(compatible(base, headers).completionModel(MODEL)),
};

const openAiResponses: Library = {
  name: "openai",
  api: "responses",
  read: (base, headers) =>
    drain(openAi(base, headers).responses.create({ model: MODEL, stream: true, input: PROMPT }), (event, seen) => {
      if (event.type === "response.output_text.delta") seen.text += event.delta;
      if (event.type === "response.completed") seen.finish = event.response.status;
    }),
};

const anthropicMessages: Library = {
  name: "@anthropic-ai/sdk",
  api: "messages",
  read: (base, headers) =>
    drain(
      new Anthropic({ ...KEY, baseURL: base, defaultHeaders: headers }).messages.create({
        model: MODEL,
        max_tokens: 16,
        stream: true,
        messages: [{ role: "user", content: PROMPT }],
      }),
      (event, seen) => {
        if (event.type === "content_block_delta" && event.delta.type === "text_delta") seen.text += event.delta.text;
        if (event.type === "message_delta") seen.finish = event.delta.stop_reason ?? seen.finish;
      },
    ),
};

export const LIBRARIES: readonly Library[] = [
  openAiChat,
  aiSdkChat,
  openAiCompletions,
  aiSdkCompletions,
  openAiResponses,
  anthropicMessages,
];

/** The words a raised thing has for a person, whatever its shape. */
export function wordsOf(raised: unknown): string {
  if (raised instanceof Error)
    return `${raised.message} ${JSON.stringify((raised as { error?: unknown }).error ?? "")}`;
  return JSON.stringify(raised) ?? "";
}

function ignore(): void {}
