import { describe, expect, test } from "bun:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import { json, makeEngine, post } from "../simulator/support.ts";
import { DIALECTS, type Dialect, type Pair, startPair } from "./pair.ts";

/** The libraries read whole, good answers over real sockets, and have what one engine alone would have told them. */

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const MODEL = "demo-model";
const QUESTION = "What runs under the bridge?";
const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string" as const }, days: { type: "integer" as const } },
  required: ["city", "days"],
};

function openAi({ base }: Pair): OpenAI {
  return new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });
}

function anthropic({ base }: Pair): Anthropic {
  return new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
}

function aiSdk({ base }: Pair) {
  return createOpenAICompatible({ apiKey: "k", name: "engine", baseURL: `${base}/v1`, includeUsage: true });
}

/** One engine that does it all, asked without a library. */
// biome-ignore lint/suspicious/noExplicitAny: answers are walked by path
async function alone(engine: Dialect, path: string, body: object): Promise<any> {
  return await json(post(makeEngine({ engine, role: "aggregated" }), path, { model: MODEL, ...body }));
}

describe.each([...DIALECTS])("AI SDK on %s", (dialect) => {
  const messages = [{ role: "user", content: QUESTION }];

  test("generateText and streamText: words, finish reason and usage", async () => {
    await using pair = await startPair(dialect);
    const model = aiSdk(pair).chatModel(MODEL);
    const theirs = await alone(dialect, "/v1/chat/completions", { messages });
    const whole = await generateText({ model, prompt: QUESTION, maxRetries: 0 });
    expect(whole.text).toBe(theirs.choices[0].message.content);
    expect(whole.finishReason).toBe("stop");
    expect([whole.usage.inputTokens, whole.usage.outputTokens]).toEqual([
      theirs.usage.prompt_tokens,
      theirs.usage.completion_tokens,
    ]);
    const stream = streamText({ model, prompt: QUESTION, maxRetries: 0 });
    let text = "";
    let pieces = 0;
    for await (const part of stream.textStream) {
      text += part;
      pieces++;
    }
    expect(text).toBe(whole.text);
    expect(pieces).toBeGreaterThan(3);
    expect(await stream.finishReason).toBe("stop");
    expect((await stream.usage).outputTokens).toBe(theirs.usage.completion_tokens);
    await pair.idle();
  });

  test("a tool is called with whole arguments, streamed and not", async () => {
    await using pair = await startPair(dialect);
    const model = aiSdk(pair).chatModel(MODEL);
    for (const stream of [false, true]) {
      const asked: unknown[] = [];
      const forecast = tool({
        description: "A forecast",
        inputSchema: jsonSchema<{ city: string; days: number }>(SCHEMA),
        execute: (input) => {
          asked.push(input);
          return "rain";
        },
      });
      const options = { model, prompt: "Use the forecast tool", tools: { forecast }, maxRetries: 0 };
      const result = stream ? streamText(options) : await generateText(options);
      if ("consumeStream" in result) await result.consumeStream();
      expect(await result.finishReason).toBe("tool-calls");
      expect(asked).toEqual([{ city: expect.any(String), days: expect.any(Number) }]);
      expect((await result.toolCalls).map(({ toolName }) => toolName)).toEqual(["forecast"]);
    }
    await pair.idle();
  });

  test("completions", async () => {
    await using pair = await startPair(dialect);
    const model = aiSdk(pair).completionModel(MODEL);
    const { text } = await generateText({ model, prompt: QUESTION, maxOutputTokens: 8, maxRetries: 0 });
    let streamed = "";
    for await (const part of streamText({ model, prompt: QUESTION, maxOutputTokens: 8, maxRetries: 0 }).textStream)
      streamed += part;
    expect(streamed).toBe(text);
    expect(text.length).toBeGreaterThan(10);
    await pair.idle();
  });
});

describe.each(["sglang", "vllm"] as const)("the Anthropic package on %s", (dialect) => {
  const body = { model: MODEL, max_tokens: 30, messages: [{ role: "user" as const, content: QUESTION }] };

  test("messages: whole and streamed, with its own usage", async () => {
    await using pair = await startPair(dialect);
    const client = anthropic(pair);
    const theirs = await alone(dialect, "/v1/messages", body);
    const whole = await client.messages.create(body);
    expect(whole.content).toEqual(theirs.content);
    expect([whole.stop_reason, whole.usage]).toEqual([theirs.stop_reason, theirs.usage]);
    const stream = client.messages.stream(body);
    let text = "";
    stream.on("text", (part) => {
      text += part;
    });
    const final = await stream.finalMessage();
    expect(text).toBe(theirs.content[0].text);
    expect(final.content).toMatchObject(theirs.content);
    expect(final.usage.output_tokens).toBe(theirs.usage.output_tokens);
    await pair.idle();
  });

  test("what prefill has read from its cache is told, not what decode was given", async () => {
    await using pair = await startPair(dialect);
    const client = anthropic(pair);
    const long = { ...body, messages: [{ role: "user" as const, content: "The river runs. ".repeat(100) }] };
    const first = await client.messages.create(long);
    const again = await client.messages.create(long);
    expect(first.usage.cache_read_input_tokens).toBe(0);
    expect(again.usage.cache_read_input_tokens).toBeGreaterThan(300);
    const streamed = await client.messages.stream(long).finalMessage();
    expect(streamed.usage.cache_read_input_tokens).toBe(again.usage.cache_read_input_tokens);
    expect(streamed.usage.input_tokens).toBe(again.usage.input_tokens);
    await pair.idle();
  });

  test("a tool is called, streamed and not", async () => {
    await using pair = await startPair(dialect);
    const client = anthropic(pair);
    const asks = {
      ...body,
      max_tokens: 100,
      messages: [{ role: "user" as const, content: "Use the forecast tool" }],
      tools: [{ name: "forecast", input_schema: SCHEMA }],
    };
    const answers = [await client.messages.create(asks), await client.messages.stream(asks).finalMessage()];
    for (const { content, stop_reason } of answers) {
      expect(stop_reason).toBe("tool_use");
      expect(content).toMatchObject([
        { type: "tool_use", name: "forecast", input: { city: expect.any(String), days: expect.any(Number) } },
      ]);
    }
    expect(answers[1]!.content).toMatchObject(answers[0]!.content.map(({ type }) => ({ type })));
    await pair.idle();
  });

  test("an engine's refusal is the library's error of that status", async () => {
    await using pair = await startPair(dialect);
    const failure = await anthropic(pair)
      .messages.create({ ...body, ...({ temperature: -1 } as object) })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Anthropic.BadRequestError);
    expect((failure as Error).message).toContain("temperature must be at least 0");
    await pair.idle();
  });
});

describe.each(["sglang", "vllm"] as const)("responses of the openai package on %s", (dialect) => {
  const body = { model: MODEL, input: QUESTION, max_output_tokens: 40 };

  test("whole and streamed", async () => {
    await using pair = await startPair(dialect);
    const client = openAi(pair);
    const theirs = await alone(dialect, "/v1/responses", body);
    const whole = await client.responses.create(body);
    expect(whole.output_text).toBe(theirs.output[0].content[0].text);
    expect(whole.usage).toEqual(theirs.usage);
    const stream = client.responses.stream(body);
    let text = "";
    const numbers: number[] = [];
    for await (const event of stream) {
      numbers.push(event.sequence_number);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    expect(text).toBe(whole.output_text);
    expect(numbers).toEqual(numbers.map((_, i) => i));
    expect((await stream.finalResponse()).output_text).toBe(text);
    await pair.idle();
  });

  test("a tool is called, streamed and not", async () => {
    await using pair = await startPair(dialect);
    const client = openAi(pair);
    const asks = {
      model: MODEL,
      input: "Use the forecast tool",
      tools: [{ type: "function" as const, name: "forecast", parameters: SCHEMA, strict: true }],
    };
    for (const response of [await client.responses.create(asks), await client.responses.stream(asks).finalResponse()]) {
      const [call] = response.output;
      expect(call).toMatchObject({ type: "function_call", name: "forecast" });
      if (call?.type === "function_call")
        expect(JSON.parse(call.arguments)).toEqual({ city: expect.any(String), days: expect.any(Number) });
    }
    await pair.idle();
  });

  test("previous_response_id is a 400 that names it: the response is on one engine of two", async () => {
    await using pair = await startPair(dialect);
    const failure = await openAi(pair)
      .responses.create({ ...body, previous_response_id: "resp_1" })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OpenAI.BadRequestError);
    expect((failure as { param?: string }).param).toBe("previous_response_id");
  });
});

describe("the openai package on vllm", () => {
  test("logprobs, an echo with the prompt's logprobs, and several choices", async () => {
    await using pair = await startPair("vllm");
    const client = openAi(pair);
    const chat = await client.chat.completions.create({
      model: MODEL,
      messages: [{ role: "user", content: QUESTION }],
      logprobs: true,
      top_logprobs: 2,
      max_tokens: 5,
      n: 2,
      seed: 3,
    });
    expect(chat.choices.map(({ index, logprobs }) => [index, logprobs?.content?.length])).toEqual([
      [0, 5],
      [1, 5],
    ]);
    const asks = { model: MODEL, prompt: "Once upon a time", echo: true, logprobs: 1, max_tokens: 4 };
    const theirs = await alone("vllm", "/v1/completions", asks);
    const echoed = await client.completions.create(asks);
    expect(echoed.choices[0]).toEqual(theirs.choices[0]);
    let text = "";
    const tokens: string[] = [];
    for await (const { choices } of await client.completions.create({ ...asks, stream: true })) {
      text += choices[0]?.text ?? "";
      tokens.push(...(choices[0]?.logprobs?.tokens ?? []));
    }
    expect([text, tokens]).toEqual([theirs.choices[0].text, theirs.choices[0].logprobs.tokens]);
    await pair.idle();
  });

  test("tools as a runner calls them", async () => {
    await using pair = await startPair("vllm");
    const asks = {
      model: MODEL,
      messages: [{ role: "user" as const, content: "Use the forecast tool" }],
      tools: [{ type: "function" as const, function: { name: "forecast", parameters: SCHEMA } }],
    };
    const whole = await openAi(pair).chat.completions.create(asks);
    const streamed = await openAi(pair).chat.completions.stream(asks).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      expect(choices[0]!.finish_reason).toBe("tool_calls");
      const [call] = choices[0]!.message.tool_calls!;
      if (call?.type !== "function") throw new Error("no function was called");
      expect(call.function.name).toBe("forecast");
      expect(JSON.parse(call.function.arguments)).toEqual({ city: expect.any(String), days: expect.any(Number) });
    }
    await pair.idle();
  });
});
