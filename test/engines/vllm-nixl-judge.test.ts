import { describe, expect, test } from "bun:test";
import { vllmNixl } from "../../src/engines/vllm-nixl.ts";
import { Failure } from "../../src/errors/failure.ts";
import type { Api } from "../../src/sse/api.ts";
import { answer, chatAnswer, request, target } from "./request.ts";

const GOOD = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[1, 2, 3]],
  remote_engine_id: "e",
  remote_request_id: "chatcmpl-r",
  remote_host: "127.0.0.1",
  remote_port: 5701,
  remote_blocks_expiry_time: null,
};

function judge(prefill: Parameters<typeof answer>, body = '{"model":"m"}', api: Api = "chat") {
  return vllmNixl.plan(request(body, api), target, "id-1").judge(answer(...prefill));
}

function failureOf(output: ReturnType<typeof judge>): Failure {
  expect(output.error).toBeInstanceOf(Failure);
  return output.error as Failure;
}

describe("NIXL hand-offs", () => {
  test.each([
    ["a list per group", { remote_block_ids: [[1], []] }],
    ["a flat list", { remote_block_ids: [0] }],
    ["members nobody knows yet", { x_new: { a: [1] }, transfer_mode: "pull" }],
  ])("%s is handed over", (_, change) => {
    const output = judge([chatAnswer("length", { kv_transfer_params: { ...GOOD, ...change } })]);
    expect(output.error).toBeUndefined();
    expect(output.data!.disaggregatedParams!.value).toEqual({ ...GOOD, ...change });
  });

  test.each(["stop", "tool_calls", "content_filter", "length", null])(
    "finish %j with a hand-off is handed over, never terminal",
    (finish) => {
      const { data } = judge([chatAnswer(finish, { kv_transfer_params: GOOD })]);
      expect(data!.disaggregatedParams).toBeDefined();
      expect(data!.finishReason).toBeUndefined();
    },
  );

  const without = (key: string) => Object.fromEntries(Object.entries(GOOD).filter(([name]) => name !== key));

  test.each<[string, unknown]>([
    ["a list", []],
    ["a list of lists", [[]]],
    ["a string", "x"],
    ["a number", 1],
    ["true", true],
    ["blocks null", { ...GOOD, remote_block_ids: null }],
    ["blocks []", { ...GOOD, remote_block_ids: [] }],
    ["blocks [[]]", { ...GOOD, remote_block_ids: [[]] }],
    ["blocks [[],[]]", { ...GOOD, remote_block_ids: [[], []] }],
    ["blocks [null]", { ...GOOD, remote_block_ids: [null] }],
    ["blocks [[1],null]", { ...GOOD, remote_block_ids: [[1], null] }],
    ["blocks [[null]]", { ...GOOD, remote_block_ids: [[null]] }],
    ["blocks as text", { ...GOOD, remote_block_ids: "1" }],
    ["blocks as object", { ...GOOD, remote_block_ids: { 0: 1 } }],
    ["block ids as text", { ...GOOD, remote_block_ids: [["1"]] }],
    ["a negative block id", { ...GOOD, remote_block_ids: [-1] }],
    ["a fraction as block id", { ...GOOD, remote_block_ids: [1.5] }],
    ["do_remote_prefill false", { ...GOOD, do_remote_prefill: false }],
    ["do_remote_prefill as text", { ...GOOD, do_remote_prefill: "true" }],
    ["port 0", { ...GOOD, remote_port: 0 }],
    ["port as text", { ...GOOD, remote_port: "5701" }],
    ["port null", { ...GOOD, remote_port: null }],
    ["port too high", { ...GOOD, remote_port: 65536 }],
    ["host null", { ...GOOD, remote_host: null }],
    ["host empty", { ...GOOD, remote_host: "" }],
    ["engine id null", { ...GOOD, remote_engine_id: null }],
    ["request id null", { ...GOOD, remote_request_id: null }],
    ["request id empty", { ...GOOD, remote_request_id: "" }],
    ...[
      "do_remote_prefill",
      "remote_block_ids",
      "remote_engine_id",
      "remote_request_id",
      "remote_host",
      "remote_port",
    ].map((key): [string, unknown] => [`no ${key}`, without(key)]),
  ])("%s never reaches decode, whatever the finish reason", (_, params) => {
    for (const finish of ["length", "stop"]) {
      const failure = failureOf(judge([chatAnswer(finish, { kv_transfer_params: params })]));
      expect(failure).toMatchObject({ code: "invalid_handoff", status: 502, stage: "handoff", kind: "content" });
    }
    const plan = vllmNixl.plan(request('{"model":"m"}'), target, "id-1");
    const raw = { value: params, text: JSON.stringify(params) };
    for (const send of [() => plan.decode(raw), () => plan.release!(raw)]) {
      expect(send).toThrow(expect.objectContaining({ code: "invalid_handoff" }));
    }
  });
});

describe("NIXL answers without a hand-off", () => {
  const NONE = [{ kv_transfer_params: null }, { kv_transfer_params: {} }, {}];

  test.each([
    ["stop", "stop"],
    ["tool_calls", "stop"],
    ["function_call", "stop"],
    ["content_filter", "content_filter"],
  ] as const)("finish %s is the answer", (finish, kind) => {
    for (const none of NONE) {
      const given = chatAnswer(finish, none);
      const { data } = judge([given]);
      expect(data).toMatchObject({ finishReason: { kind }, raw: JSON.stringify(given) });
      expect(data!.disaggregatedParams).toBeUndefined();
    }
  });

  test.each(["length", null, undefined])("finish %j is an invalid hand-off", (finish) => {
    for (const none of NONE) expect(failureOf(judge([chatAnswer(finish, none)])).code).toBe("invalid_handoff");
  });

  test.each([
    '{"min_tokens":1}',
    '{"min_completion_tokens":5}',
    '{"logprobs":true}',
    '{"logprobs":0}',
    '{"top_logprobs":2}',
  ])("%s was not on the prefill leg, so its stop is not the client's", (body) => {
    expect(failureOf(judge([chatAnswer("stop")], body)).code).toBe("invalid_handoff");
  });

  test.each(['{"min_tokens":0}', '{"logprobs":false}', '{"logprobs":null,"min_tokens":null}'])(
    "%s asks for nothing more",
    (body) => {
      expect(judge([chatAnswer("stop")], body).data!.finishReason).toEqual({ kind: "stop" });
    },
  );

  test.each([
    ["responses", { status: "completed" }, "stop"],
    ["responses", { status: "incomplete", incomplete_details: { reason: "content_filter" } }, "content_filter"],
    ["messages", { stop_reason: "end_turn" }, "stop"],
    ["messages", { stop_reason: "refusal" }, "content_filter"],
  ] as const)("%s: %j is the answer", (api, given, kind) => {
    expect(judge([given], "{}", api).data!.finishReason).toEqual({ kind });
  });

  test.each([
    ["responses", { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }],
    ["responses", { status: "in_progress" }],
    ["messages", { stop_reason: "max_tokens" }],
  ] as const)("%s: %j is an invalid hand-off", (api, given) => {
    expect(failureOf(judge([given], "{}", api)).code).toBe("invalid_handoff");
  });
});

describe("NIXL answers that are none", () => {
  test.each<[string, unknown]>([
    ["empty body", ""],
    ["{}", {}],
    ["no choices", chatAnswer("length", { choices: [] })],
    ["HTML", "<html><body>gateway</body></html>"],
    ["cut JSON", '{"id": "p", "choices": [{"index": 0, "message": {"role": "assist'],
    ["a list", []],
    ["a stream without a word of failure", 'data: {"choices":[]}\n\n'],
  ])("%s is an invalid hand-off", (_, body) => {
    expect(failureOf(judge([body]))).toMatchObject({ code: "invalid_handoff", status: 502 });
  });

  test("an answer longer than what is kept is nobody's fault: no worker is blamed, and none is tried for it", () => {
    const failure = failureOf(judge([chatAnswer("length", { kv_transfer_params: GOOD }), { truncated: true }]));
    expect(failure).toMatchObject({ code: "prefill_failed", status: 502, stage: "router", kind: undefined });
  });

  test.each<[string, unknown, number, string]>([
    ["error object", { error: { message: "exploded", type: "server_error", code: 503 } }, 503, "exploded"],
    ["error object without a status", { error: { message: "exploded", code: "kv" } }, 502, "exploded"],
    ["error text", { error: "exploded" }, 502, "exploded"],
    ["flat error", { object: "error", message: "exploded", code: 500 }, 500, "exploded"],
    ["finish abort", chatAnswer("abort", { kv_transfer_params: GOOD }), 502, "abort"],
    ["finish error", chatAnswer("error"), 502, "error"],
    ["finish cancelled", chatAnswer("cancelled"), 502, "cancelled"],
    ["finish object", chatAnswer({ type: "abort", message: "too long", status_code: 400 }), 400, "too long"],
    [
      "finish object, odd status",
      chatAnswer({ type: "abort", message: "too long", status_code: 200 }),
      502,
      "too long",
    ],
    [
      "a stream that tells why",
      'data: {"error":{"message":"exploded","code":507}}\n\ndata: [DONE]\n\n',
      507,
      "exploded",
    ],
  ])("%s in a 200 is prefill's failure", (_, body, status, text) => {
    const failure = failureOf(judge([body]));
    expect(failure).toMatchObject({ code: "prefill_failed", stage: "prefill", kind: "content", status });
    expect(failure.message).toContain(text);
    expect(failure.engine!.message).toBe(failure.message);
  });
});
