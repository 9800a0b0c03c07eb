import { expect, test } from "bun:test";
import type { SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import {
  chat,
  chatText,
  failureOf,
  get,
  json,
  ManualClock,
  makeEngine,
  makeTrio,
  post,
  rawObject,
  splice,
} from "./support.ts";

const path = "/v1/chat/completions";
const asking =
  '{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}';

async function prefillOf(engine: SimulatedEngine, id = "r-1"): Promise<{ params: string; answer: string }> {
  const body = splice(JSON.stringify({ ...chat, stream: false, max_tokens: 1 }), { kv_transfer_params: asking });
  const answer = await (await post(engine, path, body, { headers: { "x-request-id": id } })).text();
  return { answer, params: rawObject(answer, "kv_transfer_params") };
}

function decodeWith(engine: SimulatedEngine, params: string, more: object = {}): Promise<Response> {
  return post(engine, path, splice(JSON.stringify({ ...chat, ...more }), { kv_transfer_params: params }));
}

async function wordsOf(response: Response | Promise<Response>): Promise<string> {
  return (await json(response)).choices[0].message.content;
}

test("a hand-off has the members and the order of the real one, and an integer beyond 2^53", async () => {
  const { prefill } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  const keys = Object.keys(JSON.parse(params));
  expect(keys.slice(0, 7)).toEqual([
    "do_remote_prefill",
    "do_remote_decode",
    "remote_block_ids",
    "remote_engine_id",
    "remote_request_id",
    "remote_host",
    "remote_port",
  ]);
  expect(JSON.parse(params).remote_request_id).toStartWith("chatcmpl-r-1-");
  const epoch = BigInt(/"remote_epoch":(\d+)/.exec(params)?.[1] ?? "0");
  expect(epoch > 2n ** 53n).toBe(true);
});

test("one read within the lease gives the text of an aggregated engine, and frees the blocks", async () => {
  const { prefill, decode, aggregated } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  expect(prefill.side?.heldGrants).toBe(1);
  expect(await wordsOf(decodeWith(decode, params))).toBe(await wordsOf(post(aggregated, path, chat)));
  expect(prefill.side?.heldGrants).toBe(0);
  expect(decode.stats.pulled).toBe(1);
});

test("a hand-off read twice gives a 200 with wrong words, and poisons that prompt for later requests", async () => {
  const { prefill, decode, aggregated } = makeTrio("vllm", createFabric());
  const right = await wordsOf(post(aggregated, path, chat));
  const { params } = await prefillOf(prefill);
  await decodeWith(decode, params);
  const again = await decodeWith(decode, params);
  expect(again.status).toBe(200);
  expect(await wordsOf(again)).not.toBe(right);
  expect(decode.stats.reused).toBe(1);
  const fresh = await prefillOf(prefill, "r-2");
  expect(await wordsOf(decodeWith(decode, fresh.params))).not.toBe(right);
  expect(decode.stats.poisoned).toBe(1);
});

test("a hand-off is good until its lease of 30 s ends and wrong from then on; prefill's metrics show it", async () => {
  const clock = new ManualClock();
  const { prefill, decode, aggregated } = makeTrio("vllm", createFabric({ clock }));
  const right = await wordsOf(post(aggregated, path, chat));
  const inTime = await prefillOf(prefill, "a");
  await clock.advance(29_999);
  expect(await wordsOf(decodeWith(decode, inTime.params))).toBe(right);
  const late = await prefillOf(prefill, "b");
  await clock.advance(30_000);
  expect(prefill.side?.leakedGrants).toBe(1);
  const answer = await decodeWith(decode, late.params);
  expect(answer.status).toBe(200);
  expect(await wordsOf(answer)).not.toBe(right);
  const metrics = await (await get(prefill, "/metrics")).text();
  expect(metrics).toMatch(/nixl_num_notifications_after_expiry_total\{[^}]*\} 1\n/);
});

test("a client that hangs up at once still lets decode free prefill's blocks", async () => {
  const clock = new ManualClock();
  const { prefill, decode } = makeTrio("vllm", createFabric({ clock }), {
    timing: { transferMs: 1000, prefillMsPerToken: 0 },
  });
  const handoff = prefillOf(prefill);
  await clock.advance(100);
  const { params } = await handoff;
  const leaving = new AbortController();
  const body = splice(JSON.stringify(chat), { kv_transfer_params: params });
  post(decode, path, body, { signal: leaving.signal }).catch(() => {});
  await clock.advance(10);
  leaving.abort();
  await clock.advance(10);
  expect(prefill.side?.heldGrants).toBe(0);
});

const malformed: [string, (params: Record<string, unknown>) => Record<string, unknown>][] = [
  ["block ids null", (params) => ({ ...params, remote_block_ids: null })],
  ["no blocks", (params) => ({ ...params, remote_block_ids: [] })],
  ["an empty block group", (params) => ({ ...params, remote_block_ids: [[]] })],
  ["no request id", ({ remote_request_id: _gone, ...rest }) => rest],
];
for (const [name, spoil] of malformed) {
  test(`a hand-off with ${name} kills the decode engine for everybody until it is started again`, async () => {
    const { prefill, decode } = makeTrio("vllm", createFabric());
    const { params } = await prefillOf(prefill);
    let told = 0;
    decode.onDeath(() => (told += 1));
    const spoiled = JSON.stringify(spoil(JSON.parse(params)));
    expect(await failureOf(decodeWith(decode, spoiled))).toMatchObject({ code: "ECONNRESET" });
    expect(await failureOf(post(decode, path, chat))).toMatchObject({ code: "ECONNREFUSED" });
    expect([decode.dead, decode.stats.deaths, told]).toEqual([true, 1, 1]);
    decode.restart();
    expect((await post(decode, path, chat)).status).toBe(200);
  });
}

test("fewer blocks than decode's prompt needs kill it: both legs must carry the same prompt", async () => {
  const { prefill, decode } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  const longer = { messages: [{ role: "user", content: "x".repeat(2000) }] };
  expect(await failureOf(decodeWith(decode, params, longer))).toBeInstanceOf(Error);
  expect(decode.dead).toBe(true);
});

test("a hand-off whose digits were rounded on the way cannot be read: 500, and in a stream a role chunk before the error", async () => {
  const { prefill, decode } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  const rounded = JSON.stringify(JSON.parse(params));
  expect(rounded).not.toBe(params);
  const buffered = await decodeWith(decode, rounded);
  expect(buffered.status).toBe(500);
  expect(await buffered.json()).toEqual({
    error: { message: "Internal server error", type: "InternalServerError", param: null, code: 500 },
  });
  const streamed = await decodeWith(decode, rounded, { stream: true });
  expect(streamed.status).toBe(200);
  const [role, error, done] = (await streamed.text()).split("\n\n");
  expect(role).toContain('"role":"assistant"');
  expect(error).toStartWith('data: {"error": {"message": ');
  expect(done).toBe("data: [DONE]");
});

test("a prefill engine that was started again has forgotten its hand-offs", async () => {
  const { prefill, decode } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  prefill.restart();
  expect((await decodeWith(decode, params)).status).toBe(500);
});

test("null, {} and no hand-off are silently computed locally", async () => {
  const { decode, aggregated } = makeTrio("vllm", createFabric());
  const right = await wordsOf(post(aggregated, path, chat));
  for (const params of ["null", "{}"]) expect(await wordsOf(decodeWith(decode, params))).toBe(right);
  expect(decode.stats.local).toBe(2);
});

test("prefill gives no hand-off in a stream, and leaks one for each further sample", async () => {
  const { prefill } = makeTrio("vllm", createFabric());
  const body = { ...chat, max_tokens: 1, kv_transfer_params: JSON.parse(asking) };
  const streamed = await (await post(prefill, path, { ...body, stream: true })).text();
  expect(streamed).not.toContain("kv_transfer_params");
  await json(post(prefill, path, { ...body, n: 3 }));
  expect(prefill.side?.heldGrants).toBe(3);
});

test("prompt logprobs are refused on a decode with a hand-off and given by prefill", async () => {
  const { prefill, decode } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  expect((await decodeWith(decode, params, { prompt_logprobs: 1 })).status).toBe(500);
  const answer = await json(post(prefill, path, { ...chat, max_tokens: 1, prompt_logprobs: 1 }));
  expect(answer.prompt_logprobs).toHaveLength(answer.usage.prompt_tokens);
  expect(answer.prompt_logprobs[0]).toBeNull();
});

test("a stream over a good hand-off is the aggregated engine's stream, word for word", async () => {
  const { prefill, decode, aggregated } = makeTrio("vllm", createFabric());
  const { params } = await prefillOf(prefill);
  const split = await (await decodeWith(decode, params, { stream: true })).text();
  const whole = await (await post(aggregated, path, { ...chat, stream: true })).text();
  expect(chatText(split)).toBe(chatText(whole));
});

test("two prefill engines of one process have ledgers of their own: restarting one leaves the other's blocks", async () => {
  const fabric = createFabric();
  const { prefill, decode } = makeTrio("vllm", fabric);
  const other = makeEngine({ engine: "vllm", role: "prefill", fabric });
  const { params } = await prefillOf(other);
  prefill.restart();
  expect(other.sidePort).not.toBe(prefill.sidePort);
  expect((await decodeWith(decode, params)).status).toBe(200);
});
