import { describe, expect, test } from "bun:test";
import { type Api, type EventMeaning, streamApis } from "../../src/sse/api.ts";
import { StreamState } from "../../src/sse/stream-state.ts";

function read(api: Api, value: unknown, state = new StreamState(), type = "message"): EventMeaning {
  return streamApis[api].read({ type, data: typeof value === "string" ? value : JSON.stringify(value) }, state);
}
function delta(delta: object, rest: object = {}) {
  return { id: "c1", created: 7, choices: [{ index: 0, delta, finish_reason: null, ...rest }] };
}

describe("commit", () => {
  test.each([
    ["role only", delta({ role: "assistant" }), false],
    ["empty content", delta({ role: "assistant", content: "", reasoning_content: null, tool_calls: [] }), false],
    ["empty logprobs", delta({ content: "" }, { logprobs: { content: [] } }), false],
    ["no choices", { choices: [], usage: { prompt_tokens: 1 } }, false],
    ["content", delta({ content: " " }), true],
    ["reasoning_content", delta({ reasoning_content: "hm" }), true],
    ["reasoning", delta({ content: null, reasoning: "hm" }), true],
    ["a tool call", delta({ tool_calls: [{ index: 0, function: { name: "f", arguments: "" } }] }), true],
    ["a refusal", delta({ refusal: "no" }), true],
    ["a function call", delta({ function_call: { arguments: "{" } }), true],
    ["audio", delta({ audio: { id: "a" } }), true],
    ["logprobs", delta({ content: "" }, { logprobs: { content: [{ token: "a", logprob: -0.1 }] } }), true],
    ["token ids", delta({ content: "" }, { token_ids: [5] }), true],
    ["a finish reason", delta({}, { finish_reason: "stop" }), true],
  ])("chat: %s", (_, value, answers) => {
    const state = new StreamState();
    expect(read("chat", value, state).answers).toBe(answers);
    expect(state.answered).toBe(answers);
  });

  test.each([
    ["completions", { choices: [{ index: 0, text: "", finish_reason: null }] }, false],
    ["completions", { choices: [{ index: 0, text: "a", finish_reason: null }] }, true],
    ["completions", { choices: [{ index: 0, text: "", finish_reason: "length" }] }, true],
    ["generate", { text: "", output_ids: [], meta_info: { finish_reason: null } }, false],
    ["generate", { text: "", output_ids: [0], meta_info: { finish_reason: null } }, true],
    ["generate", { text: "a", meta_info: { finish_reason: null } }, true],
    ["generate", { text: "", meta_info: { finish_reason: { type: "stop" } } }, true],
    ["responses", { type: "response.created", response: { id: "r", error: null } }, false],
    ["responses", { type: "response.in_progress", response: { status: "in_progress" } }, false],
    ["responses", { type: "response.output_text.delta", delta: "a" }, true],
    ["responses", { type: "response.output_item.added", item: {} }, true],
    ["responses", { type: "response.completed", response: { status: "completed" } }, true],
    ["messages", { type: "message_start", message: { id: "m", content: [] } }, false],
    ["messages", { type: "content_block_start", content_block: { type: "text", text: "" } }, false],
    ["messages", { type: "ping" }, false],
    ["messages", { type: "content_block_delta", delta: { type: "text_delta", text: "a" } }, true],
    ["messages", { type: "message_delta", delta: { stop_reason: "end_turn" } }, true],
  ] as [Api, object, boolean][])("%s: %j", (api, value, answers) => {
    expect(read(api, value).answers).toBe(answers);
  });

  test("what is no JSON neither answers nor fails", () => {
    for (const api of Object.keys(streamApis) as Api[]) {
      for (const text of ["<html>", '{"choices":', "", "null", "3", '"error"']) {
        expect(read(api, text)).toEqual({
          answers: false,
          finishes: false,
          end: false,
          usage: false,
          failure: undefined,
        });
      }
    }
  });
});

describe("finish and end", () => {
  test("the finish is that of the last open choice, once", () => {
    const state = new StreamState(2);
    const stop = (index: number) => ({ choices: [{ index, delta: {}, finish_reason: "stop" }] });
    expect(read("chat", stop(1), state).finishes).toBe(false);
    expect(read("chat", stop(1), state).finishes).toBe(false);
    expect(state.open).toBe(1);
    expect(read("chat", stop(0), state).finishes).toBe(true);
    expect(state.finished).toBe(true);
    expect(read("chat", stop(0), state).finishes).toBe(false);
  });

  test("choices that nobody announced are waited for as well", () => {
    const state = new StreamState();
    read(
      "chat",
      {
        choices: [
          { index: 0, delta: { content: "a" } },
          { index: 1, delta: { content: "b" } },
        ],
      },
      state,
    );
    expect(read("chat", { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }, state).finishes).toBe(false);
    expect(read("chat", { choices: [{ index: 1, delta: {}, finish_reason: "stop" }] }, state).finishes).toBe(true);
  });

  test("all choices may finish in one event", () => {
    const both = [0, 1].map((index) => ({ index, text: "", finish_reason: "length" }));
    expect(read("completions", { choices: both }, new StreamState(2)).finishes).toBe(true);
  });

  test("a batch of /generate counts items by index", () => {
    const state = new StreamState(2);
    const item = (index: number) => ({ index, text: "a", meta_info: { finish_reason: { type: "length", length: 1 } } });
    expect(read("generate", item(1), state).finishes).toBe(false);
    expect(read("generate", item(0), state).finishes).toBe(true);
    expect(read("generate", [item(0), item(1)], new StreamState(2)).finishes).toBe(true);
  });

  test("[DONE] ends every API, whatever stands around it", () => {
    for (const api of Object.keys(streamApis) as Api[]) {
      const state = new StreamState();
      expect(read(api, " [DONE]", state)).toEqual({
        answers: false,
        finishes: false,
        end: true,
        usage: false,
        failure: undefined,
      });
      expect(state.ended).toBe(true);
    }
  });

  test("responses and messages finish and end by their own events", () => {
    expect(read("responses", { type: "response.incomplete", response: { status: "incomplete" } }).finishes).toBe(true);
    const state = new StreamState();
    expect(read("messages", { type: "message_delta", delta: { stop_reason: null } }, state).finishes).toBe(false);
    expect(read("messages", { type: "message_delta", delta: { stop_reason: "max_tokens" } }, state).finishes).toBe(
      true,
    );
    expect(read("messages", { type: "message_stop" }, state).end).toBe(true);
    expect(state.ended).toBe(true);
  });

  test("the event line names the event when the data does not", () => {
    expect(read("messages", {}, new StreamState(), "message_stop").end).toBe(true);
  });
});

describe("failure", () => {
  const nested = { error: { object: "error", message: "kv lost", type: "E", param: null, code: 503 } };
  test.each([
    ["nested", nested, { message: "kv lost", status: 503 }, true],
    ["nested without a message", { error: { code: 500 } }, { status: 500 }, false],
    ["nested with a type no client takes", { error: { message: "m", type: 400 } }, { message: "m" }, false],
    ["nested beside choices", { choices: [], ...nested }, { message: "kv lost" }, false],
    ["a text", { error: "busy" }, { message: "busy" }, false],
    ["flat", { object: "error", message: "no room", code: 400 }, { message: "no room", status: 400 }, false],
    ["detail", { detail: "Not Found" }, { message: "Not Found" }, false],
    [
      "abort",
      delta({ content: "x" }, { finish_reason: "abort" }),
      { message: 'The engine ended the answer with finish reason "abort"' },
      false,
    ],
    ["error", delta({}, { finish_reason: "error" }), {}, false],
    [
      "an abort object",
      delta({}, { finish_reason: { type: "abort", message: "OOM", status_code: 503, err_type: "X" } }),
      { message: "OOM", status: 503, type: "X" },
      false,
    ],
    [
      "an abort object without a text",
      delta({}, { finish_reason: { type: "abort", status_code: 500 } }),
      { message: 'The engine ended the answer with finish reason "abort"', status: 500 },
      false,
    ],
    ["an error with its text", delta({}, { finish_reason: "error: lost it" }), { message: "lost it" }, false],
  ] as [string, object, object, boolean][])("chat: %s", (_, value, fault, isNested) => {
    const state = new StreamState();
    const meaning = read("chat", value, state);
    expect(meaning.failure?.fault).toMatchObject(fault);
    expect(meaning.failure?.fault.message).not.toBe("");
    expect(meaning.failure?.nested).toBe(isNested);
    expect([meaning.answers, meaning.finishes, state.finished, state.answered]).toEqual([false, false, false, false]);
  });

  test("an abort in a batch item's meta_info fails the stream, beside a good item too", () => {
    const bad = {
      index: 1,
      text: "",
      meta_info: { finish_reason: { type: "abort", message: "transfer failed", status_code: 500 } },
    };
    expect(read("generate", bad).failure?.fault.message).toBe("transfer failed");
    expect(read("generate", [{ index: 0, text: "a" }, bad]).failure?.fault.status).toBe(500);
  });

  test("null, empty and harmless members are no failures", () => {
    expect(read("chat", { ...delta({ content: "a" }), error: null }).failure).toBeUndefined();
    expect(read("chat", { ...delta({ content: "a" }), error: "" }).answers).toBe(true);
    expect(read("chat", { ...delta({ content: "a" }), detail: "fine" }).failure).toBeUndefined();
  });

  test("event: error is a failure with any data, but only when it is dispatched", () => {
    for (const api of Object.keys(streamApis) as Api[]) {
      expect(read(api, { message: "flat", code: 429 }, new StreamState(), "error").failure).toMatchObject({
        fault: { message: "flat", status: 429 },
        nested: false,
      });
      expect(read(api, "plain words", new StreamState(), "error").failure?.fault.message).toBe("plain words");
      expect(streamApis[api].read({ type: "error", data: undefined }, new StreamState()).failure).toBeUndefined();
    }
  });

  test("responses: failed, cancelled, and a final event whose status is not what its name says", () => {
    const failed = {
      type: "response.failed",
      response: { status: "failed", error: { code: "server_error", message: "lost" } },
    };
    expect(read("responses", failed).failure).toEqual({
      fault: { message: "lost", code: "server_error" },
      nested: false,
    });
    expect(read("responses", { type: "response.cancelled", response: {} }).failure?.fault.message).toContain(
      "cancelled",
    );
    const odd = read("responses", { type: "response.completed", response: { status: "failed" } });
    expect([odd.failure !== undefined, odd.finishes]).toEqual([true, false]);
    const flat = { type: "error", code: "x", message: "m", param: null, sequence_number: 3 };
    expect(read("responses", flat, new StreamState(), "error").failure).toEqual({
      fault: { message: "m", code: "x" },
      nested: false,
    });
  });

  test("messages: the error event is nested when the event line is there, as Anthropic's library goes by it", () => {
    const error = { type: "error", error: { type: "overloaded_error", message: "busy", code: 503 } };
    const fault = { message: "busy", type: "overloaded_error", code: 503, status: 503 };
    expect(read("messages", error, new StreamState(), "error").failure).toEqual({ fault, nested: true });
    expect(read("messages", error).failure).toEqual({ fault, nested: false });
    expect(read("messages", { type: "message_delta", delta: { stop_reason: "abort" } }).failure).toBeDefined();
  });
});

describe("what is remembered", () => {
  test("id, created and usage of chunks", () => {
    const state = new StreamState();
    expect(read("chat", delta({ content: "a" }), state).usage).toBe(false);
    expect(read("chat", { id: "c2", choices: [], usage: { prompt_tokens: 3 } }, state).usage).toBe(true);
    expect([state.id, state.created]).toEqual(["c1", 7]);
  });

  test("responses: the response's own id; usage in the finish event", () => {
    const state = new StreamState();
    read("responses", { type: "response.created", sequence_number: 0, response: { id: "r", created_at: 5 } }, state);
    const done = { type: "response.completed", sequence_number: 9, response: { id: "r", usage: { input_tokens: 1 } } };
    expect(read("responses", done, state).usage).toBe(true);
    expect([state.id, state.created]).toEqual(["r", 5]);
  });

  test("messages and /generate: usage where those APIs have it", () => {
    expect(read("messages", { type: "message_start", message: { usage: { input_tokens: 1 } } }).usage).toBe(true);
    expect(read("messages", { type: "message_delta", delta: {}, usage: { output_tokens: 1 } }).usage).toBe(true);
    expect(read("generate", { text: "a", meta_info: { prompt_tokens: 3 } }).usage).toBe(true);
  });
});
