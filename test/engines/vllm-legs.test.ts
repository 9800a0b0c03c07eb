import { describe, expect, test } from "bun:test";
import type { LegTarget } from "../../src/engines/dialect.ts";
import { vllmMooncake } from "../../src/engines/vllm-mooncake.ts";
import { vllmNixl } from "../../src/engines/vllm-nixl.ts";
import { vllmPush } from "../../src/engines/vllm-push.ts";
import { Failure } from "../../src/errors/failure.ts";
import { answer, chatAnswer, request, target } from "./request.ts";

const NIXL =
  '"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}}';

/** Digits, spaces and order that printing would change. */
const HANDOFF =
  '{"do_remote_prefill": true, "remote_block_ids": [[1, 2],[]], "remote_engine_id":"e", "remote_request_id":"r","remote_host":"127.0.0.1", "remote_port":5701, "remote_blocks_expiry_time":88231.250, "x":{"seq":7523094288205119489}}';
const handoff = { value: JSON.parse(HANDOFF) as unknown, text: HANDOFF };

function prefill(...args: Parameters<typeof request>): string {
  return vllmNixl.plan(request(...args), target, "id-1").prefill.body.toString();
}

function decode(...args: Parameters<typeof request>): string {
  return vllmNixl
    .plan(request(...args), target, "id-1")
    .decode(handoff)
    .body.toString();
}

describe("vLLM, NIXL: the prefill leg", () => {
  test.each([
    ["no limit", '{"model":"m"}', `{"model":"m","stream":false,"max_tokens":1,${NIXL}`],
    ["max_tokens", '{"max_tokens":300,"model":"m"}', `{"max_tokens":1,"model":"m","stream":false,${NIXL}`],
    [
      "max_completion_tokens alone",
      '{"max_completion_tokens":400,"model":"m"}',
      `{"max_completion_tokens":1,"model":"m","stream":false,"max_tokens":1,${NIXL}`,
    ],
    [
      "both, and one of them twice",
      '{"max_tokens":3,"max_completion_tokens":4,"max_tokens":null}',
      `{"max_completion_tokens":1,"max_tokens":1,"stream":false,${NIXL}`,
    ],
    [
      "streaming with options",
      '{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}',
      `{"stream":false,"max_tokens":1,${NIXL}`,
    ],
    [
      "minimum, samples, stops and logprobs go",
      '{"min_tokens":100,"a":1,"min_completion_tokens":5,"n":1,"best_of":1,"stop":["x"],"stop_token_ids":[1],"logprobs":true,"top_logprobs":5,"b":2}',
      `{"a":1,"b":2,"stream":false,"max_tokens":1,${NIXL}`,
    ],
    [
      "tools, template, grammar and unknown members stay",
      '{"tools":[{"z":1,"a":9007199254740993}],"tool_choice":"required","chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"json_object"},"priority":-3,"tools":null,"prompt_logprobs":null}',
      `{"tools":[{"z":1,"a":9007199254740993}],"tool_choice":"required","chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"json_object"},"priority":-3,"tools":null,"prompt_logprobs":null,"stream":false,"max_tokens":1,${NIXL}`,
    ],
    [
      "a client's own hand-off is replaced",
      '{"kv_transfer_params":{"do_remote_prefill":true},"model":"m","request_id":"x"}',
      `{"model":"m","stream":false,"max_tokens":1,${NIXL}`,
    ],
  ])("%s", (_, body, expected) => {
    expect(prefill(body)).toBe(expected);
  });

  test("/v1/responses is limited by its own member, sent or not", () => {
    for (const body of ['{"input":"x"}', '{"input":"x","max_output_tokens":99}']) {
      const sent = JSON.parse(prefill(body, "responses")) as Record<string, unknown>;
      expect(sent.max_output_tokens).toBe(1);
    }
    expect(prefill('{"max_output_tokens":99}', "responses")).toStartWith('{"max_output_tokens":1,');
  });

  test("/v1/messages loses its own stops", () => {
    expect(prefill('{"stop_sequences":["x"],"max_tokens":9}', "messages")).toStartWith('{"max_tokens":1,');
  });

  test("prompt_logprobs stay on prefill and leave decode", () => {
    const body = '{"prompt_logprobs":2,"model":"m"}';
    expect(prefill(body)).toStartWith('{"prompt_logprobs":2,"model":"m",');
    expect(decode(body)).toBe(`{"model":"m","kv_transfer_params":${HANDOFF}}`);
  });
});

describe("vLLM, NIXL: the decode leg", () => {
  test("is the client's body and the hand-off, each byte for byte", () => {
    const body =
      '{ "model":"m","stream":true, "stream_options":{"include_usage":true},"min_tokens":100,"max_tokens":200,"stop":["x"],"seed":9223372036854775807,"logprobs":true}';
    expect(decode(body)).toBe(`${body.slice(0, -1)},"kv_transfer_params":${HANDOFF}}`);
  });

  test("has the engines' model name and none of the router's members from the client", () => {
    expect(decode('{"rid":"r","model":"fast","kv_transfer_params":null}', "chat", { engineModel: '"m"' })).toBe(
      `{"model":"m","kv_transfer_params":${HANDOFF}}`,
    );
  });

  test("gets the hand-off as prefill wrote it", () => {
    const plan = vllmNixl.plan(request('{"model":"m"}'), target, "id-1");
    const text = JSON.stringify(chatAnswer("length")).replace(/}$/, `, "kv_transfer_params" : ${HANDOFF} }`);
    const { data } = plan.judge(answer(text));
    expect(data!.finishReason).toBeUndefined();
    expect(data!.completionUsage).toEqual({ promptTokensDetails: { cached_tokens: 8 } });
    expect(plan.decode(data!.disaggregatedParams!).body.toString()).toBe(
      `{"model":"m","kv_transfer_params":${HANDOFF}}`,
    );
  });
});

describe("vLLM, NIXL: the release request", () => {
  test.each([
    ['{"model":"m","stream":true,"stream_options":{}}', '{"model":"m","stream":false,"max_tokens":1,'],
    ['{"max_completion_tokens":9,"stream":true,"min_tokens":4}', '{"max_completion_tokens":1,"stream":false,'],
    ['{"max_tokens":9,"max_completion_tokens":8}', '{"max_tokens":1,"max_completion_tokens":1,"stream":false,'],
    [
      '{"max_tokens":9,"n":1,"stop":["x"],"prompt":" é\\u00e9"}',
      '{"max_tokens":1,"n":1,"stop":["x"],"prompt":" é\\u00e9","stream":false,',
    ],
  ])("%s is cut to one token and keeps the hand-off", (body, expected) => {
    const plan = vllmNixl.plan(request(body), target, "id-1");
    expect(plan.release!(handoff).body.toString()).toBe(`${expected}"kv_transfer_params":${HANDOFF}}`);
  });

  test("a budget for thinking stays below the limit, or it would be refused", () => {
    const body = '{"messages":[],"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":2000}}';
    const plan = vllmNixl.plan(request(body, "messages"), target, "id-1");
    expect(plan.release!(handoff).body.toString()).toContain('"max_tokens":2001');
  });

  test("/v1/responses is cut by its own member", () => {
    const plan = vllmNixl.plan(request('{"input":"x"}', "responses"), target, "id-1");
    expect(plan.release!(handoff).body.toString()).toStartWith('{"input":"x","stream":false,"max_output_tokens":1,');
  });
});

describe("vLLM, Mooncake", () => {
  const ready: LegTarget = { ...target, mooncake: { rank: 3, engineId: "eng" } };

  test("both legs carry one transfer id, prefill a minimum of one token and its rank", () => {
    const plan = vllmMooncake.plan(request('{"model":"m","min_tokens":7,"stop":["x"],"stream":true}'), ready, "id-1");
    expect(plan.prefill.body.toString()).toBe(
      '{"model":"m","stream":false,"max_tokens":1,"min_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-id-1"}}',
    );
    expect(plan.prefill.headers).toEqual({ "x-data-parallel-rank": "3" });
    expect(plan.early!.early).toBe(true);
    const decode = plan.decode(plan.early!.disaggregatedParams!);
    expect({ ...decode, body: decode.body.toString() }).toEqual({
      path: "/v1/chat/completions",
      body: '{"model":"m","min_tokens":7,"stop":["x"],"stream":true,"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"remote_bootstrap_addr":"http://[::1]:8998","remote_engine_id":"eng","transfer_id":"xfer-id-1"}}',
    });
    expect(plan.release).toBeUndefined();
  });

  test("responses, which read no minimum, are kept from ending at their first token; a message that has is a failure, not a wait", () => {
    const responses = vllmMooncake.plan(request('{"input":"x"}', "responses"), ready, "id-1");
    expect(responses.prefill.body.toString()).toContain('"ignore_eos":true');
    const messages = vllmMooncake.plan(request('{"messages":[]}', "messages"), ready, "id-1");
    expect(messages.prefill.body.toString()).not.toContain("ignore_eos");
    const said = (reason: string) => answer(JSON.stringify({ type: "message", content: [], stop_reason: reason }));
    // No worker is to blame, and no other one would do better.
    const ended = messages.judge(said("end_turn")).error;
    expect(ended).toMatchObject({ code: "prefill_failed", status: 502, stage: "router", kind: undefined });
    for (const reason of ["max_tokens", "tool_use"]) expect(messages.judge(said(reason)).error).toBeUndefined();
  });

  test("a null hand-off in prefill's answer is no failure", () => {
    const plan = vllmMooncake.plan(request('{"model":"m"}'), ready, "id-1");
    expect(plan.judge(answer(chatAnswer("length", { kv_transfer_params: null }))).error).toBeUndefined();
  });

  test("a worker whose engine id is not known yet counts as refused, with nothing sent", () => {
    const failure = thrown(() => vllmMooncake.plan(request('{"model":"m"}'), target, "id-1"));
    expect(failure).toMatchObject({ code: "prefill_unreachable", status: 502, kind: "refused" });
  });
});

describe("vLLM, NIXL push", () => {
  test("decode's hand-off is made of configuration and the attempt's id", () => {
    const plan = vllmPush.plan(
      request('{"model":"m","stream":true}'),
      { ...target, engineId: "eng", kvHost: "10.0.0.1", tpSize: 2 },
      "id-1",
    );
    expect(plan.prefill.body.toString()).toBe(`{"model":"m","stream":false,"max_tokens":1,${NIXL}`);
    expect(plan.prefill.headers).toBeUndefined();
    expect(plan.early!.early).toBe(true);
    expect(plan.decode(plan.early!.disaggregatedParams!).body.toString()).toBe(
      '{"model":"m","stream":true,"kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":"eng","remote_host":"10.0.0.1","remote_port":5600,"tp_size":2,"pp_size":1,"remote_request_id":"id-1"}}',
    );
  });

  test("a worker without engine id is a fault of ours, never a guess", () => {
    expect(thrown(() => vllmPush.plan(request("{}"), target, "id-1"))).toMatchObject({ code: "internal", status: 500 });
  });
});

function thrown(run: () => unknown): Failure {
  try {
    run();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error("Nothing was thrown");
}

test("push: both legs of a response carry one id in their bodies, since the engines take none from the header", () => {
  const pushed = { ...target, engineId: "e", kvHost: "h" };
  const plan = vllmPush.plan(request('{"input":"a","request_id":"mine"}', "responses"), pushed, "a1");
  for (const leg of [plan.prefill, plan.decode(plan.early!.disaggregatedParams!)]) {
    const body = leg.body.toString();
    expect(JSON.parse(body).request_id).toBe("resp_a1");
    expect(body).not.toContain("mine");
  }
  const chat = vllmPush.plan(request('{"messages":[]}'), pushed, "a1");
  expect(chat.prefill.body.toString()).not.toContain("request_id");
});
