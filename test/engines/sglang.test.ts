import { describe, expect, test } from "bun:test";
import { ownedMembers } from "../../src/engines/owned.ts";
import { sglang } from "../../src/engines/sglang.ts";
import { answer, chatAnswer, request, target } from "./request.ts";

const pairing = new Set(["bootstrap_host", "bootstrap_port", "bootstrap_room"]);

function legs(...args: Parameters<typeof request>) {
  const plan = sglang.plan(request(...args), target, "id-1");
  const handoff = plan.early!.disaggregatedParams!;
  const decode = plan.decode(handoff);
  const room = /"bootstrap_room":(\[[^\]]*\]|\d+)/.exec(plan.prefill.body.toString())![1]!;
  return { plan, prefill: plan.prefill, decode, handoff, room };
}

describe("SGLang legs", () => {
  test("prefill is the client's body unstreamed, decode the client's body, both with the same room", () => {
    const body =
      '{ "model":"m", "stream" : true,"stream_options":{"include_usage":true}, "seed":9223372036854775807 , "x":[1,null,2.50],"stop":null}';
    const { prefill, decode, room } = legs(body);
    const pair = `"bootstrap_host":"[::1]","bootstrap_port":8998,"bootstrap_room":${room}}`;
    expect(prefill.path).toBe("/v1/chat/completions");
    expect(prefill.body.toString()).toBe(
      `{ "model":"m", "stream" : false, "seed":9223372036854775807 , "x":[1,null,2.50],"stop":null,${pair}`,
    );
    expect(decode.body.toString()).toBe(`${body.slice(0, -1)},${pair}`);
    expect(decode.path).toBe(prefill.path);
  });

  test.each(['{"model":"m","stream":false,"messages":[]}', '{"\\u0073tream" : false,"model":"m"}'])(
    "a request that says itself that it is unstreamed is sent to both legs in the same words: %s",
    (body) => {
      const { plan, prefill, decode, handoff } = legs(body);
      expect(prefill.body.toString()).toStartWith(`${body.slice(0, -1)},"bootstrap_host"`);
      expect(decode.body.toString()).toBe(prefill.body.toString());
      expect(plan.decode(handoff).body.toString()).toBe(prefill.body.toString());
    },
  );

  test("with stream_options, or with more than one stream, prefill's body is its own", () => {
    for (const body of [
      '{"stream":false,"stream_options":null}',
      '{"stream":null,"stream":false}',
      '{"stream":null}',
    ]) {
      const { prefill, decode } = legs(body);
      expect(prefill.body.toString()).toStartWith('{"stream":false,"bootstrap_host"');
      expect(decode.body.toString()).toStartWith(`${body.slice(0, -1)},"bootstrap_host"`);
    }
  });

  test("stream: false is appended where the client sent no stream", () => {
    const { prefill, decode } = legs('{"model":"m","messages":[]}');
    expect(prefill.body.toString()).toStartWith('{"model":"m","messages":[],"stream":false,"bootstrap_host"');
    expect(decode.body.toString()).toStartWith('{"model":"m","messages":[],"bootstrap_host"');
  });

  test("of duplicate stream members only one is left on prefill, and decode keeps both", () => {
    const { prefill, decode } = legs('{"stream":false,"model":"m","\\u0073tream":true}');
    expect(prefill.body.toString()).toStartWith('{"model":"m","\\u0073tream":false,');
    expect(decode.body.toString()).toStartWith('{"stream":false,"model":"m","\\u0073tream":true,');
  });

  test("an alias becomes the engines' name on both legs, in its place", () => {
    const { prefill, decode } = legs('{"model":"fast","a":1}', "chat", { engineModel: '"org/model"' });
    expect(prefill.body.toString()).toStartWith('{"model":"org/model","a":1,');
    expect(decode.body.toString()).toStartWith('{"model":"org/model","a":1,');
  });

  test("a body without a model gets none", () => {
    const { prefill } = legs('{"text":"hi"}', "generate", { engineModel: '"org/model"' });
    expect(prefill.body.toString()).toStartWith('{"text":"hi","stream":false,');
  });

  test.each([...ownedMembers])("a client's own %s is removed, duplicates and escaped keys included", (key) => {
    const escaped = `\\u${key.charCodeAt(0).toString(16).padStart(4, "0")}${key.slice(1)}`;
    const { prefill, decode } = legs(
      `{"${key}":1,"model":"m","${escaped}":{"a":[2]}, "deep":{"${key}":3},"${key}":"x"}`,
    );
    for (const leg of [prefill, decode]) {
      const body = leg.body.toString();
      expect(body.startsWith(`{"model":"m", "deep":{"${key}":3},`)).toBe(true);
      const top = JSON.parse(body) as Record<string, unknown>;
      const ours = pairing.has(key);
      expect(key in top).toBe(ours);
      if (ours) expect([1, "x"]).not.toContain(top[key] as number);
      expect(body).not.toContain(escaped);
    }
  });

  test("each attempt has a room of its own, exact and within 63 bits", () => {
    const rooms = new Set(Array.from({ length: 200 }, () => legs('{"model":"m"}').room));
    expect(rooms.size).toBe(200);
    for (const room of rooms) expect(BigInt(room) < 2n ** 63n).toBe(true);
    expect([...rooms].some((room) => BigInt(room) > 2n ** 53n)).toBe(true);
  });

  test("the early hand-off is a bootstrap output whose text has the legs' room", () => {
    const { plan, handoff, room } = legs('{"model":"m"}');
    expect(plan.early!.finishReason).toBeUndefined();
    expect(handoff.text).toBe(`{"bootstrap_host":"[::1]","bootstrap_port":8998,"bootstrap_room":${room}}`);
    expect(handoff.value).toEqual({ bootstrap_host: "[::1]", bootstrap_port: 8998, bootstrap_room: BigInt(room) });
  });

  test.each([
    ['{"prompt":[1,2,3]}', "completions"],
    ['{"prompt":"a"}', "completions"],
    ['{"prompt":["a"]}', "completions"],
    ['{"input_ids":[1,2]}', "generate"],
  ] as const)("one prompt has one scalar room: %s", (body, api) => {
    expect(legs(body, api).room).toMatch(/^\d+$/);
  });

  test.each([
    ['{"prompt":["a","b","c"]}', "completions"],
    ['{"prompt":[[1,2],[3],[4]]}', "completions"],
    ['{"text":["a","b","c"]}', "generate"],
    ['{"input_ids":[[1],[2],[3]]}', "generate"],
  ] as const)("a batch has lists of equal length and a distinct room for each prompt: %s", (body, api) => {
    const { prefill, decode, room } = legs(body, api);
    expect(prefill.body.toString()).toContain(
      '"bootstrap_host":["[::1]","[::1]","[::1]"],"bootstrap_port":[8998,8998,8998]',
    );
    expect(new Set(room.slice(1, -1).split(",")).size).toBe(3);
    expect(decode.body.toString()).toContain(`"bootstrap_room":${room}`);
  });

  test("input logprobs that were asked for come from prefill's answer as text", () => {
    const { plan } = legs('{"text":"hi","return_logprob":true,"logprob_start_len":0}', "generate");
    const text =
      '{"text":"P","meta_info":{"finish_reason":{"type":"length"},"cached_tokens":3,"input_token_logprobs":[[-0.10,1,null], [-2e-7,2,null]],"input_top_logprobs":null}}';
    expect(plan.judge(answer(text))).toEqual({
      data: {
        completionUsage: { promptTokensDetails: { cached_tokens: 3 } },
        inputLogprobs: { members: [{ key: "input_token_logprobs", raw: "[[-0.10,1,null], [-2e-7,2,null]]" }] },
      },
    });
    expect(legs('{"text":"hi"}', "generate").plan.judge(answer(text)).data!.inputLogprobs).toBeUndefined();
  });

  test("cached tokens come from chat's usage with whatever stands beside them", () => {
    const usage = { prompt_tokens_details: { cached_tokens: 128, x_tier: "l2" } };
    expect(legs('{"model":"m"}').plan.judge(answer(chatAnswer("length", { usage })))).toEqual({
      data: { completionUsage: { promptTokensDetails: { cached_tokens: 128, x_tier: "l2" } } },
    });
  });
});
