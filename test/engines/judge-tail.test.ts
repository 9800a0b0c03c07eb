import { describe, expect, test } from "bun:test";
import { judgeTail } from "../../src/engines/judge-tail.ts";
import { Failure } from "../../src/errors/failure.ts";
import type { PrefillOutput } from "../../src/prefill/output.ts";
import type { Api } from "../../src/sse/api.ts";
import { answer, chatAnswer } from "./request.ts";

function failureOf(output: PrefillOutput): Failure {
  expect(output.error).toBeInstanceOf(Failure);
  return output.error as Failure;
}

const OPENAI_400 = {
  error: {
    message: "prompt has 40961 tokens, limit 40960",
    type: "invalid_request_error",
    code: "e400",
    param: "messages",
  },
};
const chunk = (finish: string | null) =>
  `data: {"choices":[{"index":0,"delta":{"content":"P"},"finish_reason":${JSON.stringify(finish)}}]}\n\n`;
const DONE = "data: [DONE]\n\n";

describe("an answer with a status of its own", () => {
  test("keeps status, message, type, code and param (B08, B14)", () => {
    for (const status of [400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529]) {
      const failure = failureOf(judgeTail("chat", answer(OPENAI_400, { status })));
      expect(failure).toMatchObject({
        code: "prefill_failed",
        status,
        stage: "prefill",
        kind: "status",
        message: OPENAI_400.error.message,
        engine: OPENAI_400.error,
      });
    }
  });

  test("keeps retry-after and rate limits, and no other header", () => {
    const headers = new Headers({
      "Retry-After": "7",
      "X-RateLimit-Remaining-Requests": "0",
      server: "uvicorn",
      "set-cookie": "s=1",
    });
    const failure = failureOf(judgeTail("chat", answer({ error: "busy" }, { status: 429, headers })));
    expect([...failure.headers].sort()).toEqual([
      ["retry-after", "7"],
      ["x-ratelimit-remaining-requests", "0"],
    ]);
  });

  test.each([301, 307, 100, 600])("status %d is no status of an error: 502", (status) => {
    expect(failureOf(judgeTail("chat", answer("", { status })))).toMatchObject({ code: "prefill_failed", status: 502 });
  });

  test.each([
    ["detail", { detail: "xcause" }],
    ["list of details", { detail: [{ loc: ["body", "n"], msg: "xcause" }] }],
    ["flat", { object: "error", message: "xcause", code: 400 }],
    ["error text", { error: "xcause" }],
    ["text", "xcause"],
    ["HTML", "<html><body>xcause</body></html>"],
    ["2 MiB of text", "xcause ".repeat(299593)],
  ])("its cause is told in every shape (B87): %s", (_, body) => {
    const failure = failureOf(judgeTail("chat", answer(body, { status: 400 })));
    expect(failure.message).toContain("xcause");
    expect(new TextEncoder().encode(failure.message).length).toBeLessThanOrEqual(8192);
  });

  test("an empty body still has a message", () => {
    expect(failureOf(judgeTail("chat", answer("", { status: 500 }))).message).toContain("500");
  });
});

describe("a 200 that is none (B09)", () => {
  const flat = { object: "error", message: "KV lost", type: "InternalServerError", param: null, code: 500 };
  const abort = { type: "abort", message: "KV lost", status_code: 400, err_type: "BadRequestError" };

  test.each<[string, Api, unknown, number, string]>([
    ["error object", "chat", { error: { message: "KV lost", type: "server_error", code: 500 } }, 500, "KV lost"],
    ["flat error", "chat", flat, 500, "KV lost"],
    ["finish abort", "chat", chatAnswer("abort"), 502, "abort"],
    ["finish object", "chat", chatAnswer(abort), 400, "KV lost"],
    ["finish in meta_info", "generate", { text: "", meta_info: { finish_reason: abort } }, 400, "KV lost"],
    ["word in meta_info", "generate", { text: "", meta_info: { finish_reason: "abort" } }, 502, "abort"],
    [
      "one item of a batch",
      "generate",
      [{ meta_info: { finish_reason: { type: "length" } } }, { meta_info: { finish_reason: abort } }],
      400,
      "KV lost",
    ],
    [
      "the second choice",
      "chat",
      { choices: [...chatAnswer("length").choices, ...chatAnswer(abort).choices] },
      400,
      "KV lost",
    ],
    [
      "a failed response",
      "responses",
      { status: "failed", error: { message: "KV lost", code: "server_error" } },
      502,
      "KV lost",
    ],
    [
      "a message that is an error",
      "messages",
      { type: "error", error: { type: "api_error", message: "KV lost" } },
      502,
      "KV lost",
    ],
    ["comments before an error", "chat", `: x\n\n: y\r\n\r\n ${JSON.stringify(flat)}`, 500, "KV lost"],
    ["an error event", "chat", `data: ${JSON.stringify({ error: flat })}\n\n${DONE}`, 500, "KV lost"],
    [
      "an error event with spaces",
      "chat",
      `${chunk(null)}data: {"error": {"message": "KV lost", "code": 507}}\n\n${DONE}`,
      507,
      "KV lost",
    ],
    ["a flat error event", "completions", `data: ${JSON.stringify(flat)}\n\n${DONE}`, 500, "KV lost"],
    ["an abort as finish event", "chat", `${chunk("abort")}${DONE}`, 502, "abort"],
    [
      "a named error event",
      "messages",
      'event: error\ndata: {"type":"error","error":{"type":"x","message":"KV lost"}}\n\n',
      502,
      "KV lost",
    ],
    ["a stream without its end mark", "chat", chunk("length"), 502, "end mark"],
    ["an empty event, no end mark", "chat", "data: {}\n\n", 502, "end mark"],
    ["a message stream without message_stop", "messages", 'event: ping\ndata: {"type":"ping"}\n\n', 502, "end mark"],
    [
      "a response stream without its last event",
      "responses",
      'data: {"type":"response.created","response":{}}\n\n',
      502,
      "end mark",
    ],
    ["HTML", "chat", "<html></html>", 502, "neither JSON"],
    ["text", "chat", "ok", 502, "neither JSON"],
    ["cut JSON", "chat", '{"id":"p","choices":[', 502, "neither JSON"],
    ["a cut batch", "generate", '[{"text":"P"}', 502, "neither JSON"],
  ])("%s (%s)", (_, api, body, status, text) => {
    const failure = failureOf(judgeTail(api, answer(body)));
    expect(failure).toMatchObject({ code: "prefill_failed", status, kind: "content", stage: "prefill" });
    expect(failure.message).toContain(text);
  });
});

describe("a good answer", () => {
  test.each<[string, Api, unknown]>([
    ["chat", "chat", chatAnswer("length")],
    ["chat that ended early", "chat", chatAnswer("stop")],
    ["white space before it", "chat", ` \n \r\n ${JSON.stringify(chatAnswer("length"))}`],
    ["comments before it", "chat", `: wait\n\n: wait\n\n${JSON.stringify(chatAnswer("length"))}`],
    ["a byte order mark before it", "chat", `\ufeff${JSON.stringify(chatAnswer("length"))}`],
    ["error: null", "chat", chatAnswer("length", { error: null })],
    [
      "a text that speaks of errors",
      "chat",
      chatAnswer("length", { x: '{"error": "abort", "finish_reason":"abort"}' }),
    ],
    ["only comments", "chat", ": x\n\n"],
    ["nothing", "chat", ""],
    ["generate", "generate", { text: "P", meta_info: { finish_reason: { type: "length", length: 1 } } }],
    ["a batch", "generate", [{ text: "P", meta_info: { finish_reason: { type: "length" } } }]],
    ["a message", "messages", { type: "message", content: [], stop_reason: "max_tokens" }],
    ["a response", "responses", { object: "response", status: "incomplete" }],
    ["a stream", "chat", `${chunk(null)}${chunk("length")}${DONE}`],
    [
      "a stream with CRLF and comments",
      "chat",
      `: x\r\n\r\n${chunk("length").replaceAll("\n", "\r\n")}data:[DONE]\r\n\r\n`,
    ],
    ["a stream of messages", "messages", 'event: message_stop\ndata: {"type":"message_stop"}\n\n'],
    [
      "a stream of a response",
      "responses",
      'data: {"type":"response.completed","response":{"status":"completed"}}\n\n',
    ],
  ])("%s", (_, api, body) => {
    const output = judgeTail(api, answer(body));
    expect(output.error).toBeUndefined();
    expect(output.data).toBeDefined();
    expect(output.data!.finishReason).toBeUndefined();
  });

  test.each<[Api, object]>([
    ["completions", { usage: { prompt_tokens_details: { cached_tokens: 7 } } }],
    ["responses", { usage: { input_tokens_details: { cached_tokens: 7 } } }],
    ["messages", { usage: { cache_read_input_tokens: 7 } }],
    ["generate", { meta_info: { cached_tokens: 7 } }],
  ])("%s tells the cached tokens under its own name", (api, body) => {
    expect(judgeTail(api, answer(body)).data!.completionUsage).toEqual({ promptTokensDetails: { cached_tokens: 7 } });
  });

  test("usage that is null or empty tells nothing", () => {
    for (const usage of [null, {}, { prompt_tokens_details: null }, 3]) {
      expect(judgeTail("chat", answer(chatAnswer("length", { usage })))).toEqual({ data: {} });
    }
  });
});

test("input logprobs that were asked for may not be missing because there were too many of them", () => {
  const cut = answer('{"choices":[{"message":{}}],"input_token_logprobs":[[', { truncated: true });
  expect(judgeTail("chat", cut, () => undefined).error).toMatchObject({
    code: "prefill_failed",
    stage: "router",
    kind: undefined,
  });
});

describe("an answer of which only the front was kept", () => {
  const front = (text: string) => answer(text, { truncated: true });

  test("is good when nothing in it speaks of a failure", () => {
    expect(
      judgeTail("chat", front('{"choices":[{"message":{"content":"\\"finish_reason\\":\\"abort\\"')).error,
    ).toBeUndefined();
    expect(judgeTail("generate", front('[{"text":"P","meta_info":{"input_token_logprobs":[[')).error).toBeUndefined();
    expect(judgeTail("chat", front(chunk(null))).error).toBeUndefined();
  });

  test.each([
    '{"error":{"message":"xxx',
    '{ "object" : "error", "message":"xxx',
    '{"choices":[{"finish_reason":"abort"}],"x":"',
    '{"text":"","meta_info":{"finish_reason": {"type":"abort","message":"m"},"input_token_logprobs":[[',
    'data: {"error":{"message":"m"}}\n\ndata: {"x":"',
  ])("is a failure when it does: %s", (text) => {
    expect(failureOf(judgeTail("chat", front(text)))).toMatchObject({ code: "prefill_failed", kind: "content" });
  });
});
