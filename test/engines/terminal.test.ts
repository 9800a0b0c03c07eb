import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { openai } from "../../src/engines/openai.ts";
import { sglang } from "../../src/engines/sglang.ts";
import { trtllm } from "../../src/engines/trtllm.ts";
import { vllmNixl } from "../../src/engines/vllm-nixl.ts";
import type { Api } from "../../src/sse/api.ts";
import { eventSpans } from "../../src/sse/split.ts";
import { request } from "./request.ts";

function stream(raw: string, api: Api = "chat", body = '{"model":"m","stream":true}', over = {}): string {
  return vllmNixl.terminalStream(request(body, api, over), { raw });
}

function serve(text: string) {
  return async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
}

function client(text: string): OpenAI {
  return new OpenAI({ apiKey: "k", baseURL: "http://router.test/v1", maxRetries: 0, fetch: serve(text) });
}

/** The data of each event, parsed; every event is whole and has one data line. */
function dataOf(text: string): Record<string, unknown>[] {
  const bytes = new TextEncoder().encode(text);
  const events = eventSpans(bytes).map(({ start, end }) => new TextDecoder().decode(bytes.subarray(start, end)));
  expect(events.join("")).toBe(text);
  for (const event of events) expect(event).toMatch(/^(?:event: [^\n]+\n)?data: [^\n]*\n\n$/);
  return events
    .filter((event) => event !== "data: [DONE]\n\n")
    .map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)));
}

const USAGE = '{"prompt_tokens":12, "completion_tokens":1,"total_tokens":13}';
const CHAT = `{
  "id":"chatcmpl-1", "object":"chat.completion", "created":1700000000, "model":"m", "kv_transfer_params":null,
  "choices":[{"index":0,"message":{"role":"assistant","content":"Yes\\n\\u00e9","refusal":null,"reasoning_content":"hm","tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":[7]}],
  "usage":${USAGE}, "prompt_logprobs":null, "system_fingerprint":"fp"
}`;

describe("chat", () => {
  test("buffered: the answer without the hand-off, everything else byte for byte", () => {
    expect(vllmNixl.terminalAnswer(request("{}"), { raw: CHAT })).toBe(CHAT.replace(' "kv_transfer_params":null,', ""));
  });

  test("streamed: role and content, finish, [DONE], nothing of the hand-off", () => {
    const text = stream(CHAT);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(text).toContain('"content":"Yes\\n\\u00e9"');
    expect(text).not.toContain("kv_transfer_params");
    const base = {
      id: "chatcmpl-1",
      object: "chat.completion.chunk",
      created: 1700000000,
      model: "m",
      system_fingerprint: "fp",
    };
    expect(dataOf(text)).toEqual([
      {
        ...base,
        choices: [
          {
            index: 0,
            delta: { role: "assistant", content: "Yes\né", reasoning_content: "hm" },
            token_ids: [7],
            finish_reason: null,
          },
        ],
      },
      { ...base, choices: [{ index: 0, delta: {}, finish_reason: "stop", stop_reason: null }] },
    ]);
  });

  test("usage comes as its own last chunk when it was asked for, and only then", () => {
    const asked = dataOf(stream(CHAT, "chat", '{"model":"m","stream":true,"stream_options":{"include_usage":true}}'));
    expect(asked.at(-1)).toMatchObject({ choices: [], usage: JSON.parse(USAGE) });
    expect(asked.filter((chunk) => "usage" in chunk)).toHaveLength(1);
    expect(stream(CHAT)).not.toContain("usage");
  });

  test("the openai package reads it to its end", async () => {
    const text = stream(CHAT, "chat", '{"model":"m","stream":true,"stream_options":{"include_usage":true}}');
    const final = await client(text)
      .chat.completions.stream({ model: "m", messages: [], stream_options: { include_usage: true } })
      .finalChatCompletion();
    expect(final.choices[0]).toMatchObject({
      finish_reason: "stop",
      message: { role: "assistant", content: "Yes\né" },
    });
    expect(final.usage).toEqual(JSON.parse(USAGE));
  });

  test("tool calls get the index a stream's need, and the openai package puts them together", async () => {
    const calls =
      '[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\\"id\\": 9223372036854775807}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]';
    const raw = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":${calls}},"finish_reason":"tool_calls"}]}`;
    const final = await client(stream(raw)).chat.completions.stream({ model: "m", messages: [] }).finalChatCompletion();
    expect(final.choices[0]!.finish_reason).toBe("tool_calls");
    expect(final.choices[0]!.message.content).toBeNull();
    expect(final.choices[0]!.message.tool_calls).toMatchObject(JSON.parse(calls));
  });

  test.each(["stop", "tool_calls", "content_filter", "length", "some_new_reason"])(
    "finish reason %s stays the engine's word",
    (finish) => {
      const chunks = dataOf(stream(CHAT.replace('"stop"', JSON.stringify(finish))));
      const reasons = chunks.map((chunk) => (chunk.choices as { finish_reason: string | null }[])[0]!.finish_reason);
      expect(reasons).toEqual([null, finish]);
    },
  );

  test("an alias stands in every chunk, and a text that names the model stays", () => {
    const raw = CHAT.replace("Yes", 'm is \\"model\\":\\"m\\"').replace('"model":"m"', '"model":"org/m"');
    const text = stream(raw, "chat", '{"model":"fast","stream":true}', { engineModel: '"org/m"' });
    for (const chunk of dataOf(text)) expect(chunk.model).toBe("fast");
    expect(text).toContain('m is \\"model\\":\\"m\\"');
  });

  test("TensorRT-LLM's hand-off members never show", () => {
    const raw = CHAT.replace('"index":0,', '"index":0,"disaggregated_params":{"ctx_request_id":1},').replace(
      '"usage"',
      '"prompt_token_ids":[1],"usage"',
    );
    for (const text of [trtllm.terminalStream(request("{}"), { raw }), trtllm.terminalAnswer(request("{}"), { raw })]) {
      expect(text).not.toContain("disaggregated_params");
      expect(text).not.toContain("prompt_token_ids");
    }
  });

  test("vLLM's prompt_token_ids are the client's: it asked for them", () => {
    const raw = CHAT.replace('"usage"', '"prompt_token_ids":[1],"usage"');
    expect(vllmNixl.terminalAnswer(request("{}"), { raw })).toContain('"prompt_token_ids":[1],');
  });

  test("an output without its answer is a fault of ours", () => {
    for (const dialect of [vllmNixl, trtllm, sglang, openai]) {
      expect(() => dialect.terminalStream(request("{}"), {})).toThrow(expect.objectContaining({ code: "internal" }));
    }
  });
});

describe("completions", () => {
  const raw = `{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"Yes","logprobs":null,"finish_reason":"stop","stop_reason":13}],"usage":${USAGE},"kv_transfer_params":{}}`;

  test("text, finish, usage if asked for, [DONE]", async () => {
    const text = stream(raw, "completions", '{"model":"m","stream":true,"stream_options":{"include_usage":true}}');
    expect(dataOf(text).map((chunk) => chunk.choices)).toEqual([
      [{ index: 0, text: "Yes", finish_reason: null }],
      [{ index: 0, text: "", finish_reason: "stop", stop_reason: 13 }],
      [],
    ]);
    let said = "";
    for await (const chunk of await client(text).completions.create({ model: "m", prompt: "x", stream: true })) {
      said += chunk.choices[0]?.text ?? "";
    }
    expect(said).toBe("Yes");
  });
});

describe("responses", () => {
  const output = [
    { id: "rs_1", type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "hm" }], status: null },
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Yes\n", annotations: [], logprobs: null }],
    },
    { id: "fc_1", type: "function_call", call_id: "c1", name: "f", arguments: '{"a":1}', status: "completed" },
  ];
  const response = {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "m",
    status: "completed",
    output,
    tools: [],
    usage: { input_tokens: 3, output_tokens: 1, total_tokens: 4 },
  };
  const raw = JSON.stringify({ ...response, kv_transfer_params: null });

  test("events in the order of the API, numbered, the whole response last, no [DONE]", () => {
    const text = stream(raw, "responses");
    expect(text).not.toContain("[DONE]");
    const events = dataOf(text);
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, i) => i));
    expect(events.map((event) => event.type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.reasoning_text.delta",
      "response.reasoning_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed",
    ]);
    for (const line of text.split("\n").filter((one) => one.startsWith("event: ")))
      expect(events.map((e) => e.type)).toContain(line.slice(7));
    expect(events[0]!.response).toEqual({ ...response, status: "in_progress", output: [], usage: null });
    expect(events.at(-1)!.response).toEqual(response);
  });

  test("the openai package puts the response together", async () => {
    const final = await client(stream(raw, "responses")).responses.stream({ model: "m", input: "x" }).finalResponse();
    expect(final.output_text).toBe("Yes\n");
    expect(final.output.map((item) => item.type)).toEqual(["reasoning", "message", "function_call"]);
    expect(final.status).toBe("completed");
  });

  test("an incomplete response ends as one", () => {
    const cut = JSON.stringify({ ...response, status: "incomplete", incomplete_details: { reason: "content_filter" } });
    expect(dataOf(stream(cut, "responses")).at(-1)!.type).toBe("response.incomplete");
  });
});

describe("messages", () => {
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      { type: "thinking", thinking: "hm", signature: "sig" },
      { type: "text", text: "Yes\n" },
      { type: "tool_use", id: "t1", name: "f", input: { a: 1 } },
    ],
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 1 },
  };

  test("the Anthropic package puts the message together", async () => {
    const text = stream(JSON.stringify({ ...message, kv_transfer_params: {} }), "messages");
    expect(text).not.toContain("kv_transfer_params");
    expect(text.endsWith('event: message_stop\ndata: {"type":"message_stop"}\n\n')).toBe(true);
    const anthropic = new Anthropic({ apiKey: "k", baseURL: "http://router.test", maxRetries: 0, fetch: serve(text) });
    const final = await anthropic.messages.stream({ model: "m", max_tokens: 9, messages: [] }).finalMessage();
    expect(final.content).toMatchObject(message.content);
    expect(final.stop_reason).toBe("tool_use");
    expect(final.usage).toMatchObject(message.usage);
  });

  test("each block is opened, filled and closed under its own index", () => {
    const events = dataOf(stream(JSON.stringify(message), "messages"));
    expect(events.map((event) => [event.type, event.index])).toEqual([
      ["message_start", undefined],
      ["content_block_start", 0],
      ["content_block_delta", 0],
      ["content_block_delta", 0],
      ["content_block_stop", 0],
      ["content_block_start", 1],
      ["content_block_delta", 1],
      ["content_block_stop", 1],
      ["content_block_start", 2],
      ["content_block_delta", 2],
      ["content_block_stop", 2],
      ["message_delta", undefined],
      ["message_stop", undefined],
    ]);
  });
});

test("/generate: the answer as one event and [DONE]", () => {
  const raw = '{"text":"Yes",\n"meta_info":{"finish_reason":{"type":"stop"}}}';
  expect(sglang.terminalStream(request('{"text":"x"}', "generate"), { raw })).toBe(
    'data: {"text":"Yes", "meta_info":{"finish_reason":{"type":"stop"}}}\n\ndata: [DONE]\n\n',
  );
});
