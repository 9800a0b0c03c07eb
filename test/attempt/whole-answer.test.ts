import { expect, test } from "bun:test";
import { checkWholeAnswer } from "../../src/attempt/whole-answer.ts";
import { Failure } from "../../src/errors/failure.ts";

function failureOf(text: string, headers: Record<string, string>, passed?: [string, string][]): Failure | undefined {
  try {
    checkWholeAnswer({ status: 200, headers: new Headers(headers) }, text, "chat", passed);
    return undefined;
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

test("an answer that came whole passes", () => {
  expect(failureOf('{"choices":[]}', { "content-length": "14" })).toBeUndefined();
  // Without a length it has to parse.
  expect(failureOf('{"choices":[]}', {})).toBeUndefined();
});

test("an error in a 200 is decode's failure, with its own status and the engine's headers", () => {
  const text = '{"error":{"message":"no room","code":429}}';
  const failure = failureOf(text, { "content-length": String(text.length) }, [["retry-after", "3"]]);
  expect(failure).toMatchObject({ code: "decode_failed", status: 429, kind: "content", message: "no room" });
  expect(failure!.headers).toEqual([["retry-after", "3"]]);
});

test.each([
  ["half an object", '{"choices":[', {}],
  ["an object with a hole", '{"choices":[}', {}],
  ["a page", "<html></html>", { "content-length": "13" }],
  ["nonsense of a known length", "{oops}", { "content-length": "6" }],
  ["an object and something behind it", "{} trailing }", { "content-length": "13" }],
])("%s is no answer", (_, text, headers) => {
  expect(failureOf(text, headers)).toMatchObject({ status: 502, message: "The decode worker's answer is not JSON" });
});

test("a stream that nobody asked for is called so", () => {
  expect(failureOf("data: {}\n\n", { "content-type": "text/event-stream" })!.message).toContain("event stream");
});
