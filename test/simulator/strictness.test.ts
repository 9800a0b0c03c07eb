import { expect, test } from "bun:test";
import { chat, get, json, makeEngine, post, rooms, splice } from "./support.ts";

const path = "/v1/chat/completions";
const vllm = makeEngine({ engine: "vllm", role: "aggregated" });
const sglang = makeEngine({ engine: "sglang", role: "aggregated" });
const sglangPrefill = makeEngine({ engine: "sglang", role: "prefill" });

const refused: [string, object | string][] = [
  ["a body that is no JSON", "{"],
  ["a body that is no object", "[]"],
  ["no messages", { model: "demo-model" }],
  ["stream_options without a stream", { ...chat, stream_options: { include_usage: true } }],
  ["min_tokens above max_tokens", { ...chat, min_tokens: 2, max_tokens: 1 }],
  [
    "min_tokens above max_completion_tokens, which wins",
    { ...chat, min_tokens: 2, max_tokens: 9, max_completion_tokens: 1 },
  ],
  ["max_tokens 0", { ...chat, max_tokens: 0 }],
  ["a fractional limit", { ...chat, max_tokens: 1.5 }],
  ["n 0", { ...chat, n: 0 }],
  ["top_logprobs without logprobs", { ...chat, top_logprobs: 2 }],
  ["prompt_logprobs in a stream", { ...chat, stream: true, prompt_logprobs: 1 }],
  ["a required tool without tools", { ...chat, tool_choice: "required" }],
  [
    "a named tool that is not there",
    {
      ...chat,
      tools: [{ type: "function", function: { name: "a" } }],
      tool_choice: { type: "function", function: { name: "b" } },
    },
  ],
  ["a stream flag that is no boolean", { ...chat, stream: "yes" }],
  ["a seed of 2^63", splice(JSON.stringify(chat), { seed: "9223372036854775808" })],
];
for (const [name, body] of refused) {
  test(`vllm answers 400 to ${name}`, async () => {
    const response = await post(vllm, path, body);
    expect(response.status).toBe(400);
    const { error } = await json(response);
    expect(error).toMatchObject({ type: "BadRequestError", code: 400 });
    expect(error.message.length).toBeGreaterThan(0);
  });
}

test("the largest legal seed, null options and unknown members are taken", async () => {
  const body = splice(JSON.stringify({ ...chat, stream_options: null, x_unknown: 1 }), { seed: "9223372036854775807" });
  expect((await post(vllm, path, body)).status).toBe(200);
});

test("an unknown model is 404 on vllm; an adapter is a model", async () => {
  expect((await post(vllm, path, { ...chat, model: "other" })).status).toBe(404);
  const lora = makeEngine({ engine: "vllm", role: "aggregated", adapters: ["my-lora"] });
  expect((await post(lora, path, { ...chat, model: "my-lora" })).status).toBe(200);
  const list = await json(get(lora, "/v1/models"));
  expect(list.data.map((model: { id: string }) => model.id)).toEqual(["demo-model", "my-lora"]);
});

test("a prompt beyond the model's length is 400", async () => {
  const small = makeEngine({ engine: "vllm", role: "aggregated", maxModelLen: 16 });
  const response = await post(small, path, { ...chat, messages: [{ role: "user", content: "x".repeat(100) }] });
  expect(response.status).toBe(400);
  expect((await json(response)).error.message).toContain("maximum context length");
});

const badRooms: [string, Record<string, string>][] = [
  ["no room", { bootstrap_host: '"h"', bootstrap_port: "8998" }],
  ["a room of 2^63", rooms("9223372036854775808")],
  ["a negative room", rooms("-1")],
  ["a fractional room", rooms("1.5")],
  ["a room as text", rooms('"17"')],
  ["no host", { bootstrap_port: "8998", bootstrap_room: "1" }],
  ["no port", { bootstrap_host: '"h"', bootstrap_room: "1" }],
  [
    "lists for one prompt that do not fit",
    { bootstrap_host: '["h","h"]', bootstrap_port: "[1,1]", bootstrap_room: "[1,2]" },
  ],
];
for (const [name, members] of badRooms) {
  for (const role of ["prefill", "decode"] as const) {
    test(`sglang ${role} answers a flat 400 to ${name}`, async () => {
      const engine = makeEngine({ engine: "sglang", role });
      const response = await post(engine, path, splice(JSON.stringify(chat), members));
      expect(response.status).toBe(400);
      expect(await json(response)).toMatchObject({ object: "error", code: 400 });
    });
  }
}

test("sglang refuses a batch whose rooms are not distinct, or are one for all", async () => {
  const batch = JSON.stringify({ text: ["a", "b"] });
  const same = splice(batch, { bootstrap_host: '["h","h"]', bootstrap_port: "[1,1]", bootstrap_room: "[7,7]" });
  expect((await post(sglangPrefill, "/generate", same)).status).toBe(400);
  expect((await post(sglangPrefill, "/generate", splice(batch, rooms()))).status).toBe(400);
});

test("errors have the shape of engine and API", async () => {
  expect(await json(post(sglang, "/generate", {}))).toHaveProperty("error.message");
  expect(await json(post(sglang, "/v1/messages", { model: "demo-model", max_tokens: 3 }))).toMatchObject({
    type: "error",
    error: { type: "invalid_request_error" },
  });
  expect(await json(post(vllm, "/v1/nothing", {}))).toEqual({ detail: "Not Found" });
});

test("each engine has its own APIs: /generate is sglang's, messages are not trtllm's", async () => {
  expect((await post(vllm, "/generate", { text: "a" })).status).toBe(404);
  const trtllm = makeEngine({ engine: "trtllm", role: "aggregated" });
  expect((await post(trtllm, "/v1/messages", { ...chat, max_tokens: 3 })).status).toBe(404);
  expect(() => makeEngine({ engine: "openai", role: "prefill" })).toThrow('Expected role "aggregated"');
});

test("info routes answer as each engine's do", async () => {
  expect((await get(sglang, "/ready")).status).toBe(200);
  expect((await get(vllm, "/ready")).status).toBe(404);
  expect(await json(get(sglangPrefill, "/server_info"))).toMatchObject({
    disaggregation_mode: "prefill",
    disaggregation_bootstrap_port: 8998,
    dp_size: 1,
  });
  expect(await json(get(sglangPrefill, "/get_server_info"))).toMatchObject({ served_model_name: "demo-model" });
  expect(await json(get(vllm, "/version"))).toHaveProperty("version");
  const metrics = await (await get(vllm, "/metrics")).text();
  expect(metrics).toMatch(/^vllm:num_requests_running\{engine="0",model_name="demo-model"\} 0$/m);
});

test("the log keeps what came in byte for byte", async () => {
  const engine = makeEngine({ engine: "vllm", role: "aggregated" });
  const body = '{ "model":"demo-model",\t"messages":[{"role":"user","content":"\\u00e9"}],"seed":9007199254740993 }';
  await post(engine, path, body, { headers: { "x-request-id": "abc" } });
  expect(engine.log[0]?.body).toBe(body);
  expect(engine.log[0]?.headers.get("x-request-id")).toBe("abc");
});

test("embeddings, rerank, score, classify, tokenize and detokenize are answered by aggregated engines alone", async () => {
  const input = { model: "demo-model", input: ["a", "b"] };
  expect((await json(post(vllm, "/v1/embeddings", input))).data).toHaveLength(2);
  const ranked = await json(post(vllm, "/v1/rerank", { query: "same", documents: ["other", "same"] }));
  expect(ranked.results[0]).toMatchObject({ index: 1 });
  expect((await json(post(vllm, "/v1/score", { text_1: "x", text_2: ["x", "y"] }))).data[0].score).toBeCloseTo(1);
  expect((await json(post(vllm, "/v1/classify", input))).data).toHaveLength(2);
  const { tokens, count } = await json(post(vllm, "/tokenize", { prompt: "naïve 🙂" }));
  expect(tokens).toHaveLength(count);
  expect(await json(post(vllm, "/detokenize", { tokens }))).toEqual({ prompt: "naïve 🙂" });
  expect((await post(sglangPrefill, "/v1/embeddings", input)).status).toBe(404);
});
