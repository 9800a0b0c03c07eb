import { describe, expect, test } from "bun:test";
import { type Api, streamApis } from "../../src/sse/api.ts";
import { bufferedFault } from "../../src/sse/marks.ts";

describe("failures inside a buffered 200", () => {
  const abort = { type: "abort", message: "no room", status_code: 503, err_type: "KV" };
  test.each([
    ["chat", { error: { message: "m", code: 500 } }, { message: "m", status: 500 }],
    ["chat", { object: "error", message: "m", code: 400 }, { message: "m", status: 400 }],
    ["chat", { error: "x" }, { message: "x" }],
    ["chat", { detail: "Not Found" }, { message: "Not Found" }],
    ["chat", { choices: [{ finish_reason: "stop" }, { finish_reason: "abort" }] }, {}],
    ["chat", { choices: [{ finish_reason: abort }] }, { message: "no room", status: 503, type: "KV" }],
    ["completions", { choices: [{ text: "a", finish_reason: "error" }] }, {}],
    ["completions", { choices: [{ text: "a", finish_reason: "error: lost" }] }, { message: "lost" }],
    ["completions", { choices: [{ text: "a", finish_reason: "cancelled" }] }, {}],
    ["generate", { text: "", meta_info: { finish_reason: abort } }, { message: "no room" }],
    [
      "generate",
      [{ text: "a", meta_info: { finish_reason: { type: "stop" } } }, { meta_info: { finish_reason: abort } }],
      { status: 503 },
    ],
    ["generate", { error: { message: "m" } }, { message: "m" }],
    [
      "responses",
      { object: "response", status: "failed", error: { code: "server_error", message: "m" } },
      { message: "m" },
    ],
    [
      "responses",
      { object: "response", status: "cancelled", error: null },
      { message: "The engine ended the response as cancelled" },
    ],
    ["responses", { error: { message: "m" } }, { message: "m" }],
    ["messages", { type: "error", error: { type: "api_error", message: "m" } }, { message: "m", type: "api_error" }],
    ["messages", { type: "message", stop_reason: "abort" }, {}],
  ] as [Api, object, object][])("%s: %j", (api, value, fault) => {
    for (const text of [JSON.stringify(value), `\n ${JSON.stringify(value, null, 2)}`]) {
      const found = bufferedFault(text, api);
      expect(found).toMatchObject(fault);
      expect(found?.message).not.toBe("");
    }
  });

  test("a mark spelled with escapes is one", () => {
    expect(bufferedFault('{"\\u0065rror":{"message":"m"}}', "chat")?.message).toBe("m");
    expect(bufferedFault('{"choices":[{"finish_reason":"\\u0061bort"}]}', "chat")).toBeDefined();
  });

  test("answers are no failures, whatever words they hold", () => {
    const content = '"error": {"finish_reason":"abort"} <b> detail';
    const answers: Record<Api, unknown> = {
      chat: {
        error: null,
        choices: [{ message: { content, role: "assistant" }, finish_reason: "stop", detail: "error" }],
      },
      completions: {
        choices: [
          { text: "abort", finish_reason: "length" },
          { text: "error", finish_reason: "stop" },
        ],
      },
      generate: [{ text: "abort", meta_info: { finish_reason: { type: "length", length: 1 } } }],
      responses: {
        object: "response",
        status: "incomplete",
        error: null,
        output: [{ status: "failed", type: "error" }],
      },
      messages: { type: "message", content: [{ type: "text", text: "error" }], stop_reason: "end_turn" },
    };
    for (const api of Object.keys(streamApis) as Api[]) {
      expect(bufferedFault(JSON.stringify(answers[api]), api)).toBeUndefined();
    }
  });

  test("a text that is no JSON is for others to judge", () => {
    for (const text of ["", '{"error":', "<html>error</html>", '"error"', "null"])
      expect(bufferedFault(text, "chat")).toBeUndefined();
  });

  test("only an answer with such a word in it is parsed", () => {
    const parse = JSON.parse;
    let parsed = 0;
    JSON.parse = (text: string) => {
      parsed++;
      return parse(text);
    };
    try {
      bufferedFault(
        '{"error":null,"choices":[{"message":{"content":"an error until \\u00e4"},"finish_reason":"stop"}]}',
        "chat",
      );
      expect(parsed).toBe(0);
      bufferedFault('{"choices":[{"finish_reason":"abort"}]}', "chat");
      expect(parsed).toBe(1);
    } finally {
      JSON.parse = parse;
    }
  });
});
