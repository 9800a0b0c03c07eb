import { expect, test } from "bun:test";
import OpenAI from "openai";
import { stand } from "./fleet-of-simulators.ts";

function client(fetch: (request: Request) => Response | Promise<Response>): OpenAI {
  return new OpenAI({
    apiKey: "none",
    baseURL: "http://router.test/v1",
    maxRetries: 0,
    fetch: async (url, init) => fetch(new Request(url as string, init as RequestInit)),
  });
}

const asked = {
  model: "demo-model",
  messages: [{ role: "user" as const, content: "Three ways to say it" }],
  n: 3,
  seed: 5,
  stream_options: { include_usage: true },
};

test("the openai package puts a merged stream together into the buffered answer", async () => {
  const { router } = stand("sglang");
  const { chat } = client((request) => router.fetch(request));
  const streamed = await chat.completions.stream(asked).finalChatCompletion();
  const { stream_options, ...rest } = asked;
  const whole = await chat.completions.create(rest);
  const texts = (choices: typeof whole.choices) => choices.map(({ index, message }) => [index, message.content]);
  expect(texts(streamed.choices)).toEqual(texts(whole.choices));
  expect(new Set(whole.choices.map(({ message }) => message.content)).size).toBe(3);
  expect(streamed.usage?.completion_tokens).toBe(whole.usage!.completion_tokens);
  expect(streamed.usage?.prompt_tokens).toBe(whole.usage!.prompt_tokens);
});

test("the openai package raises when one part of a merged stream fails", async () => {
  const { router, decode } = stand("sglang", { timing: { itlMs: 2 } });
  decode.setFaults(["reset@4*1"]);
  const stream = await client((request) => router.fetch(request)).chat.completions.create({ ...asked, stream: true });
  const read = async () => {
    for await (const _ of stream);
  };
  expect(await read().catch((error) => error)).toBeInstanceOf(OpenAI.APIError);
});
