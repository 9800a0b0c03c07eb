import { describe, expect, test } from "bun:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { type Api, type FrameError, streamApis } from "../../src/sse/api.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { StreamState } from "../../src/sse/stream-state.ts";
import { bytesOf } from "./streams.ts";

// The real client libraries read what this room writes. Every stream has one good event first, as frames only come after the commit.

const error: FrameError = {
  message: "kv lost \n日",
  type: "server_error",
  code: "decode_failed",
  param: null,
  stage: "decode",
};
const settings = { apiKey: "k", maxRetries: 0, baseURL: "http://127.0.0.1:9/v1" };

function answering(text: string) {
  return async function answer(): Promise<Response> {
    const { body } = new Response(text);
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
}

async function drain(stream: AsyncIterable<unknown>): Promise<{ events: number; error: unknown }> {
  let events = 0;
  try {
    for await (const _ of stream) events++;
    return { events, error: undefined };
  } catch (error) {
    return { events, error };
  }
}

async function openAiChat(text: string) {
  const client = new OpenAI({ ...settings, fetch: answering(text) });
  return drain(
    await client.chat.completions.create({ model: "m", stream: true, messages: [{ role: "user", content: "hi" }] }),
  );
}

async function aiSdkChat(text: string) {
  const provider = createOpenAICompatible({
    ...settings,
    name: "r",
    fetch: answering(text) as unknown as typeof fetch,
  });
  const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hi" }] }];
  const { stream } = await provider.chatModel("m").doStream({ prompt });
  const parts: { type: string; error?: unknown }[] = [];
  for await (const part of stream) parts.push(part);
  return { parts: parts.map(({ type }) => type), error: parts.find(({ type }) => type === "error")?.error };
}

const content =
  'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n';

function failing(api: Api, first: string): string {
  const { errorFrame, afterErrorFrame } = streamApis[api];
  return first + errorFrame(error, 2) + afterErrorFrame;
}

/** The AI SDK gives the error object itself; a validation error of its own only says that it did not understand the event. */
function isEngineError(raised: unknown): boolean {
  return typeof raised === "object" && raised !== null && "message" in raised && !(raised instanceof Error);
}

describe("clients raise on our frames", () => {
  test("openai, chat", async () => {
    const { events, error: raised } = await openAiChat(failing("chat", content));
    expect(events).toBe(1);
    expect(raised).toBeInstanceOf(OpenAI.APIError);
    expect(raised).toMatchObject({ message: error.message, code: "decode_failed", type: "server_error" });
  });

  test("openai, completions", async () => {
    const client = new OpenAI({
      ...settings,
      fetch: answering(failing("completions", 'data: {"id":"c","choices":[{"index":0,"text":"a"}]}\n\n')),
    });
    const { events, error: raised } = await drain(
      await client.completions.create({ model: "m", stream: true, prompt: "hi" }),
    );
    expect(events).toBe(1);
    expect(raised).toBeInstanceOf(OpenAI.APIError);
  });

  test("openai, responses", async () => {
    const first =
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"delta":"a"}\n\n';
    const client = new OpenAI({ ...settings, fetch: answering(failing("responses", first)) });
    const { events, error: raised } = await drain(
      await client.responses.create({ model: "m", stream: true, input: "hi" }),
    );
    expect(events).toBe(1);
    expect(raised).toBeInstanceOf(OpenAI.APIError);
    expect(raised).toMatchObject({ message: error.message, code: "decode_failed" });
  });

  test("@ai-sdk/openai-compatible, chat", async () => {
    const { parts, error: raised } = await aiSdkChat(failing("chat", content));
    expect(parts).toContain("text-delta");
    expect(raised).toEqual({ message: error.message, type: "server_error", code: "decode_failed", param: null });
  });

  test("@anthropic-ai/sdk, messages", async () => {
    const first =
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n';
    const client = new Anthropic({
      ...settings,
      baseURL: "http://127.0.0.1:9",
      fetch: answering(failing("messages", first)),
    });
    const request = {
      model: "m",
      max_tokens: 8,
      stream: true as const,
      messages: [{ role: "user" as const, content: "hi" }],
    };
    const { events, error: raised } = await drain(await client.messages.create(request));
    expect(events).toBe(1);
    expect(raised).toBeInstanceOf(Anthropic.APIError);
    expect((raised as InstanceType<typeof Anthropic.APIError>).error).toMatchObject({
      type: "error",
      error: { type: "api_error", message: error.message },
    });
  });
});

describe("what is called nested is what the chat clients raise on as it is", () => {
  test.each([
    'data: {"error":{"message":"overloaded","type":"overloaded","code":503}}\n\n',
    'data:{"error": {"object":"error","message":"x","type":"E","param":null,"code":500}}\r\n\r\n',
    'data: {"error":{"message":"m"}}\n\n',
  ])("passed on: %j", async (frame) => {
    expect(streamApis.chat.read(parseEvent(bytesOf(frame)), new StreamState()).failure?.nested).toBe(true);
    const stream = `${content}${frame}data: [DONE]\n\n`;
    expect((await openAiChat(stream)).error).toBeInstanceOf(OpenAI.APIError);
    expect(isEngineError((await aiSdkChat(stream)).error)).toBe(true);
  });

  test.each([
    'data: {"object":"error","message":"x","code":500}\n\n',
    'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}\n\n',
    'data: {"error":{"message":"m","type":7}}\n\n',
  ])("rewritten, since one of them would not say it: %j", async (frame) => {
    const { failure } = streamApis.chat.read(parseEvent(bytesOf(frame)), new StreamState());
    expect(failure?.nested).toBe(false);
    const stream = `${content}${frame}data: [DONE]\n\n`;
    const heard = [
      (await openAiChat(stream)).error instanceof OpenAI.APIError,
      isEngineError((await aiSdkChat(stream)).error),
    ];
    expect(heard).toContain(false);
    const rewritten = failing("chat", content);
    expect((await openAiChat(rewritten)).error).toBeInstanceOf(OpenAI.APIError);
  });
});
