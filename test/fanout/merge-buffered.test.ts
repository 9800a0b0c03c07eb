import { describe, expect, test } from "bun:test";
import { mergeBuffered } from "../../src/fanout/merge-buffered.ts";

test.each(["{}", '{"choices":[]}'])("a part without a choice is no answer: %s", (body) => {
  const good = '{"choices":[{"index":0,"text":"a"}]}';
  expect(() => mergeBuffered("completions", [good, body], 2)).toThrow(
    expect.objectContaining({ code: "decode_failed", status: 502 }),
  );
});

describe("whole answers as one answer", () => {
  test("is the first part's, with all choices under their index, byte for byte else", () => {
    const a =
      '{ "id" : "a", "created":1.0, "choices":[{"index":0,"message":{"content":"\\u00e9"},"x":1.50}], "usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}, "x_ids":[9223372036854775807] }';
    const b =
      '{"id":"b","choices":[{"message":{"content":"2"},"index" : 0,"x_id":12345678901234567890}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}';
    expect(mergeBuffered("chat", [a, b], 2)).toBe(
      '{ "id" : "a", "created":1.0, "choices":[{"index":0,"message":{"content":"\\u00e9"},"x":1.50},{"message":{"content":"2"},"index" : 1,"x_id":12345678901234567890}], "usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}, "x_ids":[9223372036854775807] }',
    );
  });

  test("no usage anywhere stays none; a choice without an index gets one", () => {
    expect(mergeBuffered("completions", ['{"choices":[{}]}', '{"choices":[{}]}'], 1)).toBe(
      '{"choices":[{"index":0},{"index":1}]}',
    );
  });

  test("/generate is a list of the answers, lists of one unwrapped", () => {
    expect(mergeBuffered("generate", [' {"text":"a"}\n', '[{"text":"b","x":1.0}]'], 1)).toBe(
      '[{"text":"a"},{"text":"b","x":1.0}]',
    );
  });

  test.each(["{", "[1]", "nonsense"])("an answer that is %s is decode's failure", (body) => {
    expect(() => mergeBuffered("chat", ['{"choices":[]}', body], 1)).toThrow(
      expect.objectContaining({ code: "decode_failed", status: 502 }),
    );
  });
});
