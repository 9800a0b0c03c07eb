import { expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { respond } from "../../src/simulator/play-response.ts";
import { type Answer, failureOf, makeEngine } from "./support.ts";

/** The real client libraries read what the simulator writes: its chunk shapes are theirs. */
function fetchOf(engine: ReturnType<typeof makeEngine>) {
  const answer = respond(engine);
  return (input: Answer, init?: RequestInit): Promise<Response> => answer(new Request(input, init));
}
const engine = makeEngine({ engine: "vllm", role: "aggregated" });
const openai = new OpenAI({ apiKey: "k", baseURL: "http://engine/v1", fetch: fetchOf(engine), maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "k", baseURL: "http://engine", fetch: fetchOf(engine), maxRetries: 0 });
const messages = [{ role: "user" as const, content: "What runs under the bridge?" }];
const model = "demo-model";
const parameters = { type: "object" as const, properties: { city: { type: "string" } } };

test("openai: a chat stream adds up to the buffered completion", async () => {
  const stream = openai.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
  const streamed = await stream.finalChatCompletion();
  const whole = await openai.chat.completions.create({ model, messages });
  expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content as string);
  expect(streamed.usage?.completion_tokens).toBe(whole.usage?.completion_tokens as number);
});

test("openai: a streamed tool call has the arguments of the buffered one", async () => {
  const tools = [{ type: "function" as const, function: { name: "get_weather", parameters } }];
  const body = { model, messages, tools, tool_choice: "required" as const };
  const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
  const whole = await openai.chat.completions.create(body);
  expect(streamed.choices[0]?.message.tool_calls?.[0]).toMatchObject({
    function: (whole as Answer).choices[0].message.tool_calls[0].function,
  });
});

test("openai: an error frame is raised, a refusal is its status", async () => {
  const failing = openai.chat.completions.create(
    { model, messages, stream: true },
    { headers: { "x-sim-fault": "error-frame@1" } },
  );
  async function readAll(): Promise<void> {
    for await (const _chunk of await failing);
  }
  expect((await failureOf(readAll())).message).toContain("Simulated fault");
  expect(await failureOf(openai.chat.completions.create({ model: "other", messages }))).toMatchObject({ status: 404 });
});

test("openai: responses, streamed and buffered, have the same output", async () => {
  const whole = await openai.responses.create({ model, input: "What runs under the bridge?" });
  const stream = openai.responses.stream({ model, input: "What runs under the bridge?" });
  const types: string[] = [];
  let numbers = 0;
  for await (const event of stream) {
    types.push(event.type);
    expect(event.sequence_number).toBe(numbers++);
  }
  expect(types[0]).toBe("response.created");
  expect(types.at(-1)).toBe("response.completed");
  expect((await stream.finalResponse()).output_text).toBe(whole.output_text);
  const limited = await openai.responses.create({ model, input: "a", max_output_tokens: 2 });
  expect([limited.status, limited.incomplete_details?.reason]).toEqual(["incomplete", "max_output_tokens"]);
});

test("anthropic: messages, streamed and buffered, are the same, thinking and tools included", async () => {
  const tools = [{ name: "get_weather", input_schema: parameters }];
  for (const more of [
    {},
    { thinking: { type: "enabled" as const, budget_tokens: 1024 } },
    { tools, tool_choice: { type: "any" as const } },
  ]) {
    const body = { model, messages, max_tokens: 100, ...more };
    const whole = await anthropic.messages.create(body);
    const streamed = await anthropic.messages.stream(body).finalMessage();
    expect(streamed.content as Answer).toEqual(whole.content);
    expect(streamed.stop_reason).toBe(whole.stop_reason);
    expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens);
  }
});
