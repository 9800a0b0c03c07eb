import { describe, expect, test } from "bun:test";
import { disaggRequestId } from "../../src/engines/disagg-request-id.ts";
import { trtllm } from "../../src/engines/trtllm.ts";
import { Failure } from "../../src/errors/failure.ts";
import { answer, request, target } from "./request.ts";

/** Ids beyond 2^53, spaces and order that printing would change. */
const PARAMS =
  '{"request_type": "context_only", "first_gen_tokens":[42], "ctx_request_id":6917529027641081857, "disagg_request_id": 9223372036854775807,"encoded_opaque_state":"b3BhcXVl","x":1.50}';
const USAGE =
  '{"prompt_tokens":12, "completion_tokens":1,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":4}}';

function context(finish: string | null | undefined, params: string | undefined = PARAMS, more = ""): string {
  const reason = finish === undefined ? "" : `"finish_reason":${JSON.stringify(finish)},`;
  return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,${reason}"message":{"role":"assistant","content":"P"},"disaggregated_params":${params}}],"usage":${USAGE},"prompt_token_ids":[1, 2,3]${more}}`;
}

function plan(...args: Parameters<typeof request>) {
  return trtllm.plan(request(...args), target, "id-1");
}

describe("TensorRT-LLM legs", () => {
  test("the context leg is the client's body unstreamed; limits and stops stay", () => {
    const { prefill } = plan(
      '{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":200,"stop":["x"],"disaggregated_params":{"request_type":"generation_only"},"seed":9223372036854775807}',
    );
    const id = /"disagg_request_id":(\d+)/.exec(prefill.body.toString())![1]!;
    expect(prefill.body.toString()).toBe(
      `{"model":"m","stream":false,"max_tokens":200,"stop":["x"],"seed":9223372036854775807,"disaggregated_params":{"request_type":"context_only","disagg_request_id":${id},"schedule_style":0}}`,
    );
  });

  const GENERATION = PARAMS.replace('"context_only"', '"generation_only"').replace(/}$/, `,"ctx_usage":${USAGE}}`);

  test("chat: the generation leg adds the prompt's ids and the hand-off, as text", () => {
    const body = '{ "model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true} }';
    const attempt = plan(body);
    const { data } = attempt.judge(answer(context("length")));
    expect(data!.completionUsage).toEqual({ promptTokensDetails: { cached_tokens: 4 } });
    expect(attempt.decode(data!.disaggregatedParams!).body.toString()).toBe(
      `{ "model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"prompt_token_ids":[1, 2,3],"disaggregated_params":${GENERATION} }`,
    );
  });

  test("completions: the ids take the prompt's place", () => {
    const attempt = plan('{"prompt":"hi","model":"fast","max_tokens":5}', "completions", { engineModel: '"m"' });
    const { data } = attempt.judge(answer(context("not_finished")));
    expect(attempt.decode(data!.disaggregatedParams!).body.toString()).toBe(
      `{"prompt":[1, 2,3],"model":"m","max_tokens":5,"disaggregated_params":${GENERATION}}`,
    );
  });

  test("what the context did not give is not made up", () => {
    const attempt = plan('{"prompt":"hi"}', "completions");
    const text = context("length").replace(`,"usage":${USAGE},"prompt_token_ids":[1, 2,3]`, ',"usage":null');
    const { data } = attempt.judge(answer(text));
    expect(attempt.decode(data!.disaggregatedParams!).body.toString()).toBe(
      `{"prompt":"hi","disaggregated_params":${PARAMS.replace('"context_only"', '"generation_only"')}}`,
    );
  });

  test("the release request is the generation leg cut to one token", () => {
    const attempt = plan('{"model":"m","stream":true,"stream_options":{},"max_tokens":200}');
    const { data } = attempt.judge(answer(context("length")));
    expect(attempt.release!(data!.disaggregatedParams!).body.toString()).toBe(
      `{"model":"m","stream":false,"max_tokens":1,"prompt_token_ids":[1, 2,3],"disaggregated_params":${GENERATION}}`,
    );
  });
});

describe("disagg_request_id", () => {
  test("is fresh, 2^40 at least and below 2^63, in exact digits", () => {
    const ids = new Set(Array.from({ length: 300 }, () => disaggRequestId()));
    expect(ids.size).toBe(300);
    for (const id of ids) expect(BigInt(id) >= 2n ** 40n && BigInt(id) < 2n ** 63n).toBe(true);
  });

  test("too small a draw is drawn again, too large a one loses its top bit", () => {
    const draws = [0n, 2n ** 40n - 1n, 2n ** 63n + 5n, 2n ** 64n - 1n];
    expect(disaggRequestId(() => draws.shift()!)).toBe("9223372036854775807");
    expect(disaggRequestId(() => 2n ** 40n)).toBe("1099511627776");
  });

  test("two attempts never share one", () => {
    const ids = [plan("{}"), plan("{}")].map(
      ({ prefill }) => /"disagg_request_id":(\d+)/.exec(prefill.body.toString())![1],
    );
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe("TensorRT-LLM answers", () => {
  test.each(["length", "not_finished", null, undefined])("finish %j with both ids is a hand-off", (finish) => {
    const { data } = plan("{}").judge(answer(context(finish)));
    expect(data!.disaggregatedParams!.text).toBe(PARAMS);
    expect(data!.finishReason).toEqual(finish === "length" ? { kind: "length" } : undefined);
    expect(data!.final).toBeUndefined();
  });

  test.each([
    ["stop", "stop"],
    ["tool_calls", "stop"],
    ["content_filter", "content_filter"],
  ] as const)("finish %s is the answer, with a hand-off or without", (finish, kind) => {
    for (const params of [PARAMS, "null", "{}"]) {
      const text = context(finish, params);
      expect(plan("{}").judge(answer(text)).data).toMatchObject({ finishReason: { kind }, raw: text });
    }
  });

  test("a client's limit of one token makes the context the answer", () => {
    const text = context("length", "null");
    for (const body of ['{"max_tokens":1}', '{"max_completion_tokens":1,"max_tokens":9}']) {
      expect(plan(body).judge(answer(text)).data).toMatchObject({
        final: true,
        raw: text,
        finishReason: { kind: "length" },
      });
    }
    expect(plan('{"max_tokens":1,"max_completion_tokens":9}').judge(answer(text)).error).toBeInstanceOf(Failure);
  });

  const change = (from: string, to: string) => PARAMS.replace(from, to);

  test.each<[string, string]>([
    ["empty body", ""],
    ["{}", "{}"],
    ["choices: []", '{"choices":[]}'],
    ["two choices", context("length").replace("[{", '[{"index":1,"finish_reason":"length"},{')],
    ["HTML", "<html></html>"],
    ["cut JSON", context("length").slice(0, 80)],
    ["null params", context("length", "null")],
    ["params {}", context("length", "{}")],
    ["params []", context("length", "[]")],
    ["params as text", context("length", '"x"')],
    ["ctx id null", context("length", change("6917529027641081857", "null"))],
    ["ctx id absent", context("length", change('"ctx_request_id":6917529027641081857, ', ""))],
    ["disagg id null", context("length", change("9223372036854775807", "null"))],
    ["disagg id absent", context("length", change('"disagg_request_id": 9223372036854775807,', ""))],
  ])("%s is an invalid hand-off (B16)", (_, text) => {
    const { error } = plan("{}").judge(answer(text));
    expect(error).toMatchObject({ code: "invalid_handoff", status: 502, stage: "handoff" });
  });

  test("a hand-off without ids is never sent, neither to decode nor for its release", () => {
    const raw = {
      value: { ctx_request_id: null, disagg_request_id: 1 },
      text: '{"ctx_request_id":null,"disagg_request_id":1}',
    };
    const attempt = plan("{}");
    expect(() => attempt.decode(raw)).toThrow(expect.objectContaining({ code: "invalid_handoff" }));
    expect(() => attempt.release!(raw)).toThrow(expect.objectContaining({ code: "invalid_handoff" }));
  });

  test.each([
    ["abort", 502],
    ["error", 502],
    ["cancelled", 502],
    ["timeout", 502],
  ] as const)("finish %s is prefill's failure, although there is a hand-off", (finish, status) => {
    const { error } = plan("{}").judge(answer(context(finish)));
    expect(error).toMatchObject({ code: "prefill_failed", status, kind: "content" });
  });

  test("an error text is prefill's failure with its status", () => {
    const { error } = plan("{}").judge(answer({ error: "no KV" }, { status: 422 }));
    expect(error).toMatchObject({ code: "prefill_failed", status: 422, kind: "status", message: "no KV" });
  });

  test("the answer for the client has no hand-off members, and everything else byte for byte", () => {
    const text = context("stop", PARAMS, ', "x_ids":[9223372036854775807], "choice_note":"disaggregated_params"');
    const attempt = plan("{}");
    const { data } = attempt.judge(answer(text));
    expect(trtllm.terminalAnswer(request("{}"), data!)).toBe(
      `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"P"}}],"usage":${USAGE}, "x_ids":[9223372036854775807], "choice_note":"disaggregated_params"}`,
    );
  });

  test("an alias stands in the answer as the client wrote it", () => {
    const { data } = plan("{}").judge(answer(context("stop")));
    const asked = request('{"model":"fast"}', "chat", { engineModel: '"m"' });
    expect(JSON.parse(trtllm.terminalAnswer(asked, data!))).toMatchObject({ model: "fast" });
    expect(trtllm.terminalStream(asked, data!)).not.toContain('"model":"m"');
  });
});
