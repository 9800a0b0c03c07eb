import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { boundedText, maxMessageBytes } from "../../src/sse/bounded-text.ts";
import { engineFault } from "../../src/sse/engine-error.ts";
import { bytesOf } from "./streams.ts";

describe("what an engine says about its own error", () => {
  test.each([
    [
      "OpenAI",
      { error: { message: "m", type: "t", param: "p", code: "c" } },
      { message: "m", type: "t", param: "p", code: "c" },
    ],
    [
      "vLLM",
      { error: { message: "m", type: "InternalServerError", param: null, code: 500 } },
      { message: "m", type: "InternalServerError", code: 500, status: 500 },
    ],
    ["TensorRT-LLM", { error: "x" }, { message: "x" }],
    [
      "SGLang, flat",
      { object: "error", message: "m", type: "BadRequestError", param: null, code: 400 },
      { message: "m", type: "BadRequestError", code: 400, status: 400 },
    ],
    [
      "Dynamo, flat",
      { message: "m", type: "Not Found", code: 404 },
      { message: "m", type: "Not Found", code: 404, status: 404 },
    ],
    [
      "Anthropic",
      { type: "error", error: { type: "overloaded_error", message: "m" } },
      { message: "m", type: "overloaded_error" },
    ],
    ["FastAPI", { detail: "Not Found" }, { message: "Not Found" }],
    [
      "FastAPI, validation",
      {
        detail: [
          { loc: ["body", "messages", 0], msg: "Field required" },
          { loc: [], msg: "bad" },
        ],
      },
      { message: "body.messages.0: Field required; bad" },
    ],
    [
      "FastAPI, an object",
      { detail: { error: { message: "m", code: 503 } } },
      { message: "m", code: 503, status: 503 },
    ],
    ["a name and a message", { error: "Bad Request", message: "model is missing" }, { message: "model is missing" }],
    ["an error that wraps another's text", { error: { detail: "deep" }, message: "outer" }, { message: "deep" }],
    [
      "a code beside the error",
      { error: { message: "m" }, status_code: 429 },
      { message: "m", code: 429, status: 429 },
    ],
    ["a status out of range", { error: { message: "m", code: 200 } }, { message: "m", code: 200 }],
    ["a status that is no integer", { error: { message: "m", code: "503" } }, { message: "m", code: "503" }],
    ["a type that is a number", { error: { message: "m", type: 400 } }, { message: "m", type: "400" }],
    ["an unknown object", { reason: "x" }, { message: '{"reason":"x"}' }],
    ["a number", 7, { message: "7" }],
    ["a list", ["a", { message: "b" }], { message: "a; b" }],
  ] as [string, unknown, object][])("%s", (_, value, fault) => {
    expect(engineFault(value, 502)).toEqual(fault as never);
    // A body's text says the same as its value.
    expect(engineFault(` ${JSON.stringify(value)}\n`, 502)).toEqual(fault as never);
  });

  test.each([
    ["plain text", "upstream connect error\n", "upstream connect error"],
    ["HTML", "<html><h1>502 Bad Gateway</h1></html>", "<html><h1>502 Bad Gateway</h1></html>"],
    ["cut JSON", '{"error":{"mess', '{"error":{"mess'],
    ["a JSON string", '"words"', "words"],
  ])("%s is the message", (_, text, message) => {
    expect(engineFault(text, 502)).toEqual({ message });
  });

  test.each([
    "",
    " \n",
    "{}",
    "null",
    "[]",
    '{"error":{}}',
    '{"error":null}',
    '{"error":{"message":""}}',
    '{"detail":""}',
  ])("%j says nothing: a sentence says so", (text) => {
    expect(engineFault(text, 503).message).toMatch(/\w/);
    expect(engineFault(text, 503).message).not.toBe("null");
  });

  test("the sentence for an empty body names the status", () => {
    expect(engineFault("", 503).message).toBe("The engine answered with status 503 and no message");
    expect(engineFault({ error: {} }, 200).message).toBe("The engine reported an error without a message");
  });

  test("2 MiB of anything becomes 8 KiB at most, and at once", () => {
    const much = "日".repeat(700_000);
    const validation = Array.from({ length: 50_000 }, () => ({ loc: ["body"], msg: "Field required" }));
    for (const value of [
      much,
      { error: much },
      { error: { message: much, type: much, code: much } },
      { detail: validation },
      { x: much },
    ]) {
      const fault = engineFault(value, 500);
      expect(bytesOf(fault.message).length).toBeLessThanOrEqual(maxMessageBytes);
      expect(bytesOf(fault.message).length).toBeGreaterThan(maxMessageBytes - 8);
      expect(bytesOf(`${fault.type}${fault.code}`).length).toBeLessThanOrEqual(512);
    }
  });

  test("JSON nested a hundred thousand deep is survived", () => {
    const deep = 100_000;
    for (const text of ["[".repeat(deep) + "]".repeat(deep), `${'{"error":'.repeat(deep)}1${"}".repeat(deep)}`]) {
      expect(engineFault(text, 500).message).not.toBe("");
    }
  });

  test("any JSON value gives a message that is not empty and within bounds", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom("error", "detail", "message", ""), (value, key) => {
        const { message } = engineFault(key === "" ? value : { [key]: value }, 500);
        expect(message.trim()).not.toBe("");
        expect(bytesOf(message).length).toBeLessThanOrEqual(maxMessageBytes);
      }),
    );
  });
});

describe("bounded text", () => {
  test("is the text, or its longest front that fits with the mark, cut between characters", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 60 }), fc.integer({ min: 4, max: 80 }), (text, limit) => {
        const bounded = boundedText(text, limit);
        const size = bytesOf(text).length;
        if (size <= limit) {
          expect(bounded).toBe(text);
          return;
        }
        expect(bounded.endsWith("…")).toBe(true);
        const front = bounded.slice(0, -1);
        expect(text.startsWith(front)).toBe(true);
        expect(front.isWellFormed()).toBe(true);
        expect(bytesOf(bounded).length).toBeLessThanOrEqual(limit);
        const next = String.fromCodePoint(text.codePointAt(front.length)!);
        expect(bytesOf(front + next).length).toBeGreaterThan(limit - 3);
      }),
    );
  });

  test("exactly 8 KiB stays whole, one byte more does not", () => {
    const whole = "é".repeat(maxMessageBytes / 2);
    expect(boundedText(whole)).toBe(whole);
    expect(bytesOf(boundedText(`${whole}a`)).length).toBeLessThanOrEqual(maxMessageBytes);
  });
});
