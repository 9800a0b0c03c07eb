import { describe, expect, test } from "bun:test";
import { consumePrefillStream, type PrefillCompletion } from "../../src/prefill/consume.ts";
import { NoDisaggregatedParams, PrefillError } from "../../src/prefill/errors.ts";
import type { FinishReason, PrefillOutput } from "../../src/prefill/output.ts";
import { RequestTracker } from "../../src/prefill/tracker.ts";
import { bootstrap, CountingGuard, data, endedWith, HandMade, raw, rejection, surroundings } from "./hand-made.ts";

function consume(...outputs: PrefillOutput[]): Promise<PrefillCompletion> {
  return consumePrefillStream(endedWith(...outputs), surroundings());
}

async function refusal(...outputs: PrefillOutput[]): Promise<PrefillError> {
  const error = await rejection(consume(...outputs));
  expect(error).toBeInstanceOf(PrefillError);
  return error as PrefillError;
}

const CTX = data({ disaggregatedParams: raw({ ctx_request_id: 42 }) });

describe("the first output", () => {
  test("an empty stream is its own error", async () => {
    const error = await refusal();
    expect(error.code).toBe("no_output");
    expect(error.message).toBe("Prefill router returned no output (stream ended)");
  });

  test("an error does not record prefill complete, keeps the worker's text and the error itself", async () => {
    const ports = surroundings();
    const tracker = new RequestTracker(ports.clock);
    const cause = new Error("out of KV blocks");
    const made = new HandMade<PrefillOutput>({ error: cause });
    const guard = new CountingGuard();
    const error = (await rejection(consumePrefillStream(made.stream, { ...ports, tracker, guard }))) as PrefillError;
    expect(error.code).toBe("error_output");
    expect(error.message).toBe("Prefill router returned error in output: out of KV blocks");
    expect(error.cause).toBe(cause);
    expect(tracker.recordPrefillComplete()).toBe(true);
    expect(guard.released).toBe(1);
    expect(made.cancelled).toHaveLength(1);
  });

  test("a transport that breaks before it is an error in the output", async () => {
    const cause = new TypeError("connection reset");
    const broken = new HandMade<PrefillOutput>().fail(cause);
    const guard = new CountingGuard();
    const error = (await rejection(consumePrefillStream(broken.stream, { ...surroundings(), guard }))) as PrefillError;
    expect(error.code).toBe("error_output");
    expect(error.message).toBe("Prefill router returned error in output: connection reset");
    expect(error.cause).toBe(cause);
    expect(guard.released).toBe(1);
  });

  test("a stream that someone else reads is a prefill error, not a foreign one", async () => {
    const taken = endedWith(CTX);
    taken.getReader();
    const guard = new CountingGuard();
    const error = await rejection(consumePrefillStream(taken, { ...surroundings(), guard }));
    expect(error).toBeInstanceOf(PrefillError);
    expect(guard.released).toBe(1);
  });

  test.each([
    ["plain words", "plain words"],
    [{ message: "from an object" }, "from an object"],
    [{ code: 503 }, '{"code":503}'],
    [17, "17"],
    [{ big: 1n }, "[object Object]"],
  ])("an error of the form %p has words", async (error, words) => {
    expect((await refusal({ error })).message).toBe(`Prefill router returned error in output: ${words}`);
  });

  test("null is how some sources write that there is no error", async () => {
    const output = { error: null, data: { disaggregatedParams: raw({ a: 1 }) } } as unknown as PrefillOutput;
    expect((await consume(output)).kind).toBe("handoff");
  });
});

describe("prefill first, decode after it", () => {
  test("a later error is reported, after completion was recorded", async () => {
    const ports = surroundings();
    const tracker = new RequestTracker(ports.clock);
    const guard = new CountingGuard();
    const cause = new Error("worker died");
    const made = new HandMade<PrefillOutput>(CTX);
    const consumed = rejection(consumePrefillStream(made.stream, { ...ports, tracker, guard }));
    await Bun.sleep(0);
    expect(tracker.prefillCompletedAt).toBe(0);
    expect(guard.released).toBe(0);
    made.push({ error: cause });
    const error = (await consumed) as PrefillError;
    expect(error.code).toBe("error_in_stream");
    expect(error.message).toBe("Prefill router returned error in output stream: worker died");
    expect(error.cause).toBe(cause);
    expect(tracker.recordPrefillComplete()).toBe(false);
    expect(guard.released).toBe(1);
    expect(made.cancelled).toEqual([error]);
  });

  test("a later error wins over a terminal answer and over missing params", async () => {
    const terminal = data({ finishReason: { kind: "stop" } });
    expect((await refusal(terminal, { error: "late" })).code).toBe("error_in_stream");
    expect((await refusal(data({}), { error: "late" })).code).toBe("error_in_stream");
    expect((await refusal({}, { error: "late" })).code).toBe("error_in_stream");
  });

  test("a later finish reason error or cancelled is a failure", async () => {
    const failed = await refusal(CTX, data({ finishReason: { kind: "error", message: "NaN in logits" } }));
    expect(failed.code).toBe("backend_failed");
    expect(failed.message).toBe("Prefill backend failed: NaN in logits");
    const cancelled = await refusal(CTX, data({ finishReason: { kind: "cancelled" } }));
    expect(cancelled.code).toBe("backend_cancelled");
    expect(cancelled.message).toBe("Prefill backend cancelled before completing the handoff");
  });

  test("a transport that breaks later is an error in the stream", async () => {
    const made = new HandMade<PrefillOutput>(CTX);
    const consumed = rejection(consumePrefillStream(made.stream, surroundings()));
    await Bun.sleep(0);
    made.fail(new Error("cut"));
    expect(((await consumed) as PrefillError).message).toBe("Prefill router returned error in output stream: cut");
  });

  test("prompt token details come from the first output, else from the first later one that has them", async () => {
    const first = { cached_tokens: 1 };
    const later = { cached_tokens: 2 };
    function usage(promptTokensDetails: { cached_tokens: number }): PrefillOutput {
      return data({ completionUsage: { promptTokensDetails } });
    }
    const own = await consume(
      data({ disaggregatedParams: raw({ a: 1 }), completionUsage: { promptTokensDetails: first } }),
      usage(later),
    );
    expect(own).toMatchObject({ kind: "handoff", result: { promptTokensDetails: first } });
    const filled = await consume(CTX, data({}), usage(later), usage({ cached_tokens: 3 }));
    expect(filled).toMatchObject({ kind: "handoff", result: { promptTokensDetails: later } });
  });

  test("input logprobs of prefill are part of the result", async () => {
    const logprobs = [[-0.5, 11]];
    const completion = await consume(CTX, data({ inputLogprobs: logprobs }));
    expect(completion).toMatchObject({ kind: "handoff", result: { inputLogprobs: logprobs } });
  });

  test("the guard is held until the stream ends, then released once", async () => {
    const guard = new CountingGuard();
    const made = new HandMade<PrefillOutput>(CTX);
    const consumed = consumePrefillStream(made.stream, { ...surroundings(), guard });
    await Bun.sleep(0);
    expect(guard.released).toBe(0);
    made.end();
    await consumed;
    expect(guard.released).toBe(1);
  });
});

describe("terminal or hand-off", () => {
  const reasons: FinishReason[] = [
    { kind: "eos" },
    { kind: "stop" },
    { kind: "cancelled" },
    { kind: "error", message: "prefill failed" },
    { kind: "content_filter" },
  ];

  test.each(reasons)("$kind without params is terminal, and comes back as it was", async (finishReason) => {
    const output = { tokenIds: [2], finishReason, raw: "{}" };
    const completion = await consume(data(output));
    if (completion.kind !== "terminal") throw new Error("expected a terminal completion");
    expect(completion.output).toBe(output);
    expect(completion.completion).toBeUndefined();
  });

  test("an answer marked final is terminal whatever its finish reason says", async () => {
    const params = raw({ ctx_request_id: 42 });
    for (const finishReason of [undefined, { kind: "length" }] as const) {
      const completion = await consume(data({ disaggregatedParams: params, finishReason, final: true }));
      expect(completion.kind).toBe("terminal");
    }
  });

  test.each([undefined, { kind: "length" } as const])(
    "finish reason %p still needs a hand-off",
    async (finishReason) => {
      expect((await refusal(data({ finishReason }))).code).toBe("no_disaggregated_params");
    },
  );

  test.each([undefined, { kind: "length" } as const])(
    "finish reason %p: the params come back unchanged, text and all",
    async (finishReason) => {
      const disaggregatedParams = { value: { ctx_request_id: 42 }, text: '{"ctx_request_id":  42}' };
      const workerTraceLink = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
      const completion = await consume(data({ finishReason, disaggregatedParams, workerTraceLink }));
      if (completion.kind !== "handoff") throw new Error("expected a hand-off");
      expect(completion.result.disaggregatedParams).toBe(disaggregatedParams);
      expect(completion.workerLink).toBe(workerTraceLink);
      expect(completion.completion).toBeUndefined();
    },
  );

  test.each([
    { ctx_request_id: null },
    { request_type: "context_only" },
    { request_type: "context_only", ctx_request_id: null },
  ])("%j is refused before decode", async (params) => {
    const error = await refusal(data({ disaggregatedParams: raw(params) }));
    expect(error).toBeInstanceOf(NoDisaggregatedParams);
    expect(error.message).toBe("Prefill router output has no usable ctx_request_id for a non-terminal handoff");
  });

  test.each([
    [{ request_type: "context_only", ctx_request_id: 0 }],
    [{ request_type: "generation_only" }],
    [{}],
    [[]],
    ["opaque"],
    [0],
  ])("%j is a hand-off", async (params) => {
    expect((await consume(data({ disaggregatedParams: raw(params) }))).kind).toBe("handoff");
  });

  test("no data and no params are different errors of the same kind", async () => {
    const noData = await refusal({});
    expect(noData).toBeInstanceOf(NoDisaggregatedParams);
    expect(noData.code).toBe("no_disaggregated_params");
    expect(noData.message).toBe("Prefill router output has no data field");
    for (const output of [data({}), data({ disaggregatedParams: raw(null) })]) {
      const noParams = await refusal(output);
      expect(noParams).toBeInstanceOf(NoDisaggregatedParams);
      expect(noParams.message).toBe("Prefill router output missing disaggregated_params");
    }
  });
});

describe("bootstrap", () => {
  test.each([
    ["values that are null", raw({ bootstrap_host: null, bootstrap_port: null, bootstrap_room: null })],
    ["arrays of a batch", raw({ bootstrap_host: ["a"], bootstrap_port: [1], bootstrap_room: [2], more: true })],
  ])("the three members count by being there: %s", async (_, disaggregatedParams) => {
    const made = new HandMade<PrefillOutput>(data({ disaggregatedParams }));
    const completion = await consumePrefillStream(made.stream, surroundings());
    expect(completion.kind).toBe("handoff");
    expect(completion.completion?.outcome).toBeNull();
  });

  test("two of the three members are no bootstrap", async () => {
    const completion = await consume(data({ disaggregatedParams: raw({ bootstrap_host: "a", bootstrap_port: 1 }) }));
    expect(completion.completion).toBeUndefined();
  });

  test("a hand-off that a dialect marks early is answered while prefill runs", async () => {
    const ports = surroundings();
    const tracker = new RequestTracker(ports.clock);
    const made = new HandMade<PrefillOutput>(
      data({ disaggregatedParams: raw({ transfer_id: "xfer-1" }), early: true }),
    );
    const completion = await consumePrefillStream(made.stream, { ...ports, tracker });
    expect(completion.kind).toBe("handoff");
    expect(completion.completion?.outcome).toBeNull();
    expect(tracker.prefillCompletedAt).toBeUndefined();
  });

  test("a terminal bootstrap output is terminal, and its tail is still drained", async () => {
    const ports = surroundings();
    const guard = new CountingGuard();
    const made = new HandMade<PrefillOutput>(bootstrap({ finishReason: { kind: "stop" } }));
    const completion = await consumePrefillStream(made.stream, { ...ports, guard });
    expect(completion.kind).toBe("terminal");
    expect(guard.released).toBe(0);
    made.push(data({}));
    made.end();
    await Promise.all(ports.background.tasks);
    expect(guard.released).toBe(1);
    expect(completion.completion?.outcome?.ok).toBe(true);
  });

  test("an early output without usable params is refused, and its tail is still drained", async () => {
    const ports = surroundings();
    const guard = new CountingGuard();
    const made = new HandMade<PrefillOutput>(data({ early: true }));
    const error = await rejection(consumePrefillStream(made.stream, { ...ports, guard }));
    expect(error).toBeInstanceOf(NoDisaggregatedParams);
    expect(guard.released).toBe(0);
    made.end();
    await Promise.all(ports.background.tasks);
    expect(guard.released).toBe(1);
  });

  test("the hand-off says what was known when decode left, even if the tail knows more later", async () => {
    const made = new HandMade<PrefillOutput>(bootstrap());
    const completion = await consumePrefillStream(made.stream, surroundings());
    made.push(data({ completionUsage: { promptTokensDetails: { cached_tokens: 9 } } }));
    made.end();
    await completion.completion?.settled;
    expect(completion).toMatchObject({ kind: "handoff", result: { promptTokensDetails: undefined } });
  });
});
