import { expect, test } from "bun:test";
import fc from "fast-check";
import { parseJson, printJson, sameJson } from "../../src/simulator/json.ts";
import { countTokens, detokenize, tokenize } from "../../src/simulator/vocabulary.ts";
import { chat, chatText, eventsOf, json, makeEngine, post, splice } from "./support.ts";

const path = "/v1/chat/completions";
const engines = (["sglang", "vllm", "trtllm", "openai"] as const).map((engine) =>
  makeEngine({ engine, role: "aggregated" }),
);
const vllm = engines[1]!;
const sglang = engines[0]!;

async function words(engine: (typeof engines)[number], body: object | string): Promise<string> {
  return (await json(post(engine, path, body))).choices[0].message.content;
}

function asking(content: string, more: object = {}): object {
  return { model: "demo-model", messages: [{ role: "user", content }], ...more };
}

test("prompt and seed alone decide the words: every engine and every run gives the same", async () => {
  const texts = await Promise.all(
    [...engines, makeEngine({ engine: "vllm", role: "aggregated" })].map((one) => words(one, chat)),
  );
  expect(new Set(texts).size).toBe(1);
  expect(await words(vllm, { ...chat, temperature: 2, user: "x" })).toBe(texts[0] as string);
});

test("another prompt, another seed, and a seed that differs beyond 2^53 give other words", async () => {
  const base = JSON.stringify(chat);
  const texts = await Promise.all([
    words(vllm, base),
    words(vllm, asking("What runs under the bridge!")),
    words(vllm, splice(base, { seed: "9223372036854775806" })),
    words(vllm, splice(base, { seed: "9223372036854775807" })),
  ]);
  expect(new Set(texts).size).toBe(4);
});

test("sample i of n has the words of a request of its own with seed + i", async () => {
  const three = await json(post(vllm, path, splice(JSON.stringify({ ...chat, n: 3 }), { seed: "9007199254740993" })));
  const single = await words(vllm, splice(JSON.stringify(chat), { seed: "9007199254740995" }));
  expect(three.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2]);
  expect(three.choices[2].message.content).toBe(single);
});

test("a limit cuts the same words and says length; without it the model stops by itself", async () => {
  const whole = await json(post(vllm, path, chat));
  const cut = await json(post(vllm, path, { ...chat, max_tokens: 4 }));
  expect(whole.choices[0].finish_reason).toBe("stop");
  expect(cut.choices[0].finish_reason).toBe("length");
  expect(cut.usage.completion_tokens).toBe(4);
  expect(whole.choices[0].message.content).toStartWith(cut.choices[0].message.content);
});

test("a stop string ends the text before it, streamed and buffered alike", async () => {
  const whole = await words(vllm, chat);
  const stop = whole.slice(9, 13);
  const stopped = await json(post(vllm, path, { ...chat, stop }));
  expect(stopped.choices[0].message.content).toBe(whole.slice(0, whole.indexOf(stop)));
  expect(stopped.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: stop });
  const stream = await (await post(vllm, path, { ...chat, stop: [stop], stream: true })).text();
  expect(chatText(stream)).toBe(stopped.choices[0].message.content);
});

test("min_tokens makes the answer longer, ignore_eos runs to the limit", async () => {
  const longer = await json(post(vllm, path, { ...chat, min_tokens: 60 }));
  expect(longer.usage.completion_tokens).toBeGreaterThanOrEqual(60);
  const forced = await json(post(vllm, path, { ...chat, ignore_eos: true, max_tokens: 70 }));
  expect(forced.usage.completion_tokens).toBe(70);
  expect(forced.choices[0].finish_reason).toBe("length");
});

test("the last user message may set the length; some characters take two tokens and give an empty chunk first", async () => {
  const exact = await json(post(vllm, path, asking("[sim:tokens=5]", { max_tokens: 50 })));
  expect(exact.usage.completion_tokens).toBeWithin(5, 7);
  const long = await (await post(vllm, path, asking("[sim:tokens=400]", { stream: true }))).text();
  const deltas = eventsOf(long).filter((data) => data.includes('"delta":{"content":'));
  expect(deltas.some((data) => data.includes('"content":""'))).toBe(true);
  expect(chatText(long)).toContain(" 🙂");
});

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "integer" }, unit: { enum: ["c", "f"] } },
    },
  },
};

test("a tool is called when the prompt asks for it, with arguments that fit its schema", async () => {
  const none = await json(post(vllm, path, asking("hello", { tools: [weather] })));
  expect(none.choices[0].finish_reason).toBe("stop");
  const body = asking("use get_weather please", { tools: [weather] });
  const { message, finish_reason } = (await json(post(vllm, path, body))).choices[0];
  expect(finish_reason).toBe("tool_calls");
  const called = message.tool_calls[0].function;
  expect(called.name).toBe("get_weather");
  expect(JSON.parse(called.arguments)).toEqual({ city: expect.any(String), days: expect.any(Number), unit: "c" });
  const stream = await (await post(vllm, path, { ...body, stream: true })).text();
  let streamed = "";
  for (const data of eventsOf(stream).slice(0, -1)) {
    streamed += JSON.parse(data).choices[0].delta.tool_calls?.[0].function.arguments ?? "";
  }
  expect(streamed).toBe(called.arguments);
});

test("reasoning comes before content, in its own member", async () => {
  const { message } = (await json(post(vllm, path, { ...chat, reasoning_effort: "low" }))).choices[0];
  expect(message.reasoning_content.length).toBeGreaterThan(0);
  expect(message.content.length).toBeGreaterThan(0);
});

test("usage is streamed only where asked for, and equals the buffered one", async () => {
  const body = { ...chat, stream: true };
  const without = await (await post(vllm, path, body)).text();
  expect(without).not.toContain('"usage"');
  const fresh = makeEngine({ engine: "vllm", role: "aggregated" });
  const asked = await (await post(fresh, path, { ...body, stream_options: { include_usage: true } })).text();
  const usage = JSON.parse(eventsOf(asked).at(-2) ?? "").usage;
  expect(usage).toEqual((await json(post(makeEngine({ engine: "vllm", role: "aggregated" }), path, chat))).usage);
});

test("a long prompt that was seen before counts as cached but for its last token at most", async () => {
  const fresh = makeEngine({ engine: "vllm", role: "aggregated" });
  const body = asking("word ".repeat(500));
  const first = await json(post(fresh, path, body));
  const second = await json(post(fresh, path, body));
  expect(first.usage.prompt_tokens_details.cached_tokens).toBe(0);
  expect(second.usage.prompt_tokens_details.cached_tokens).toBeWithin(700, second.usage.prompt_tokens);
});

test("logprobs: one entry per token, the chosen one among the likeliest, the same in a stream", async () => {
  const body = { ...chat, max_tokens: 3, logprobs: true, top_logprobs: 2 };
  const { content } = (await json(post(vllm, path, body))).choices[0].logprobs;
  expect(content).toHaveLength(3);
  expect(content[0].top_logprobs).toHaveLength(2);
  expect(content[0].top_logprobs[0]).toMatchObject({ token: content[0].token, logprob: content[0].logprob });
  const stream = await (await post(vllm, path, { ...body, stream: true })).text();
  const streamed = eventsOf(stream)
    .filter((data) => data !== "[DONE]")
    .flatMap((data) => JSON.parse(data).choices[0].logprobs?.content ?? []);
  expect(streamed).toEqual(content);
});

test("sglang: input logprobs from logprob_start_len on, null for the first token, and none on decode's side", async () => {
  const ask = {
    text: "twelve chars",
    sampling_params: { max_new_tokens: 2 },
    return_logprob: true,
    top_logprobs_num: 2,
  };
  const { meta_info } = await json(post(sglang, "/generate", { ...ask, logprob_start_len: 0 }));
  expect(meta_info.input_token_logprobs).toHaveLength(meta_info.prompt_tokens);
  expect(meta_info.input_token_logprobs[0][0]).toBeNull();
  expect(meta_info.input_top_logprobs[1]).toHaveLength(2);
  expect(meta_info.output_token_logprobs).toHaveLength(2);
  const later = await json(post(sglang, "/generate", { ...ask, logprob_start_len: 2 }));
  expect(later.meta_info.input_token_logprobs).toHaveLength(meta_info.prompt_tokens - 2);
  const without = await json(post(sglang, "/generate", ask));
  expect(without.meta_info.input_token_logprobs).toEqual([]);
});

test("/generate streams the whole text so far, and the last event has the finish reason", async () => {
  const body = { text: "river", sampling_params: { max_new_tokens: 4 } };
  const items = eventsOf(await (await post(sglang, "/generate", { ...body, stream: true })).text());
  expect(items.at(-1)).toBe("[DONE]");
  const parsed = items.slice(0, -1).map((data) => JSON.parse(data));
  const whole = await json(post(sglang, "/generate", body));
  expect(parsed.map((item) => item.output_ids.length)).toEqual([1, 2, 3, 4]);
  expect(parsed.at(-1).text).toBe(whole.text);
  expect(parsed.at(-1).meta_info.finish_reason).toEqual({ type: "length", length: 4 });
  expect(parsed[0].meta_info.finish_reason).toBeNull();
});

test("completions: arrays of prompts and token ids, echo, and n samples each", async () => {
  const texts = await json(post(vllm, "/v1/completions", { model: "demo-model", prompt: ["one", "two"], n: 2 }));
  expect(texts.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2, 3]);
  const ids = await json(
    post(vllm, "/v1/completions", { model: "demo-model", prompt: [tokenize("one"), tokenize("two")], n: 2 }),
  );
  expect(ids.choices.map((choice: { text: string }) => choice.text)).toEqual(
    texts.choices.map((choice: { text: string }) => choice.text),
  );
  const echoed = await json(
    post(vllm, "/v1/completions", { model: "demo-model", prompt: "one", echo: true, logprobs: 1 }),
  );
  expect(echoed.choices[0].text).toStartWith("one");
  expect(echoed.choices[0].logprobs.token_logprobs[0]).toBeNull();
  expect(echoed.choices[0].logprobs.tokens.join("")).toBe(echoed.choices[0].text);
});

test("token ids turn back into the very text, and count as many as they are", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), (text) => {
      const ids = tokenize(text);
      expect(detokenize(ids)).toBe(text);
      expect(ids).toHaveLength(countTokens(text));
    }),
  );
});

test("JSON is read as the standard reads it, and numbers keep their digits", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(JSON.parse(printJson(parseJson(text)))).toEqual(JSON.parse(text));
    }),
  );
  const digits = '{"a":[9223372036854775807,1.50,-0,1e400],"__proto__":{"b":1}}';
  expect(printJson(parseJson(digits))).toBe(digits);
  expect(sameJson(parseJson('{"a":1,"b":2}'), parseJson('{ "b":2,"a":1 }'))).toBe(true);
  expect(sameJson(parseJson("9007199254740993"), parseJson("9007199254740992"))).toBe(false);
  for (const bad of ["", "{", "[1,]", '{"a":1,}', "01", "nul", '"\n"', "1 2", '{"a" 1}']) {
    expect(() => parseJson(bad)).toThrow(SyntaxError);
  }
});
