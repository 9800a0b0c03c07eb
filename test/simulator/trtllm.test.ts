import { expect, test } from "bun:test";
import type { SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { chat, failureOf, json, ManualClock, makeTrio, post, rawObject, splice } from "./support.ts";

const chatPath = "/v1/chat/completions";
const asking = '{"request_type":"context_only","disagg_request_id":9223372036854775001,"schedule_style":0}';

async function contextOf(engine: SimulatedEngine, path: string, body: object) {
  const text = await (await post(engine, path, splice(JSON.stringify(body), { disaggregated_params: asking }))).text();
  const params = rawObject(text, "disaggregated_params");
  return { text, params, answer: JSON.parse(text) };
}

function generationBody(body: object, params: string, ids: number[], drop: string[] = []): string {
  const kept = Object.fromEntries(Object.entries(body).filter(([key]) => !drop.includes(key)));
  const given = params
    .replace('"context_only"', '"generation_only"')
    .replace(/}$/, ',"ctx_usage":{"prompt_tokens":1}}');
  return splice(JSON.stringify(kept), { disaggregated_params: given, prompt_token_ids: JSON.stringify(ids) });
}

test("context ids are beyond 2^53 from the first request on, and the router's own id comes back", async () => {
  const { prefill } = makeTrio("trtllm", createFabric());
  const { text, answer } = await contextOf(prefill, chatPath, chat);
  const id = /"ctx_request_id":(\d+)/.exec(text)?.[1] ?? "0";
  expect(BigInt(id) > 2n ** 53n).toBe(true);
  expect(String(Number(id))).not.toBe(id);
  expect(text).toContain('"disagg_request_id":9223372036854775001');
  expect(answer.choices).toHaveLength(1);
  expect(answer.choices[0].finish_reason).toBe("not_finished");
  expect(answer.prompt_token_ids).toHaveLength(answer.usage.prompt_tokens);
});

test("chat: generation goes on to the text of an aggregated engine", async () => {
  const { prefill, decode, aggregated } = makeTrio("trtllm", createFabric());
  const { params, answer } = await contextOf(prefill, chatPath, chat);
  const split = await json(post(decode, chatPath, generationBody(chat, params, answer.prompt_token_ids)));
  const whole = await json(post(aggregated, chatPath, chat));
  expect(split.choices[0].message.content).toBe(whole.choices[0].message.content);
  expect(whole.choices[0].message.content).toStartWith(answer.choices[0].message.content);
});

test("completions: the prompt may be replaced by its token ids, of any script", async () => {
  const { prefill, decode, aggregated } = makeTrio("trtllm", createFabric());
  const body = { model: "demo-model", prompt: "naïve 東京 🙂 text", max_tokens: 9 };
  const { params, answer } = await contextOf(prefill, "/v1/completions", body);
  const leg = generationBody(body, params, answer.prompt_token_ids, ["prompt"]);
  const given = leg.replace('"prompt_token_ids"', '"prompt"');
  const split = await json(post(decode, "/v1/completions", given));
  const whole = await json(post(aggregated, "/v1/completions", body));
  expect(split.choices[0].text).toBe(whole.choices[0].text);
});

test("what ends at the first token is final on the context worker: stop, and length where the client asked for one token", async () => {
  const { prefill } = makeTrio("trtllm", createFabric());
  const silent = { ...chat, messages: [{ role: "user", content: "[sim:tokens=0]" }] };
  expect((await contextOf(prefill, chatPath, silent)).answer.choices[0].finish_reason).toBe("stop");
  expect((await contextOf(prefill, chatPath, { ...chat, max_tokens: 1 })).answer.choices[0].finish_reason).toBe(
    "length",
  );
});

test("parameters that were rounded, read twice, or are unknown do not pass for good ones", async () => {
  const { prefill, decode, aggregated } = makeTrio("trtllm", createFabric());
  const right = (await json(post(aggregated, chatPath, chat))).choices[0].message.content;
  const { params, answer } = await contextOf(prefill, chatPath, chat);
  const rounded = JSON.stringify(JSON.parse(params));
  expect((await post(decode, chatPath, generationBody(chat, rounded, answer.prompt_token_ids))).status).toBe(500);
  const leg = generationBody(chat, params, answer.prompt_token_ids);
  expect((await json(post(decode, chatPath, leg))).choices[0].message.content).toBe(right);
  expect((await json(post(decode, chatPath, leg))).choices[0].message.content).not.toBe(right);
  expect(decode.stats.reused).toBe(1);
});

test("a fault in the middle of a stream just drops the connection", async () => {
  const { decode, aggregated } = makeTrio("trtllm", createFabric({ clock: new ManualClock() }));
  const response = await post(
    aggregated,
    chatPath,
    { ...chat, stream: true },
    { headers: { "x-sim-fault": "error-frame@1" } },
  );
  expect(await failureOf(response.text())).toMatchObject({ code: "ECONNRESET" });
  expect((await post(decode, chatPath, chat)).status).toBe(400);
});

test("a context worker refuses streams, several samples and a missing request type", async () => {
  const { prefill } = makeTrio("trtllm", createFabric());
  for (const more of [{ stream: true }, { n: 2 }]) {
    const body = splice(JSON.stringify({ ...chat, ...more }), { disaggregated_params: asking });
    expect((await post(prefill, chatPath, body)).status).toBe(400);
  }
  expect((await post(prefill, chatPath, chat)).status).toBe(400);
  expect((await post(prefill, "/v1/responses", chat)).status).toBe(404);
});
