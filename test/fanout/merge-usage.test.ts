import { describe, expect, test } from "bun:test";
import { mergeUsage } from "../../src/fanout/merge-usage.ts";

describe("usage of the parts together", () => {
  test("counts a prompt once, however many samples it has, and every answer", () => {
    const usages = [
      '{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2}',
      '{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}',
      '{"prompt_tokens":9,"total_tokens":10,"completion_tokens":1}',
      '{"prompt_tokens":9,"total_tokens":13,"completion_tokens":4}',
    ];
    expect(mergeUsage(usages, 2)).toBe('{"prompt_tokens":14,"total_tokens":24,"completion_tokens":10}');
    expect(mergeUsage(usages, 4)).toBe('{"prompt_tokens":5,"total_tokens":15,"completion_tokens":10}');
  });

  test("adds details member by member: the prompt's once per prompt, the answer's all", () => {
    const usage = (cached: number, reasoning: number) =>
      `{"prompt_tokens":4,"prompt_tokens_details":{"cached_tokens":${cached}},"completion_tokens":6,"completion_tokens_details":{"reasoning_tokens":${reasoning},"x":null}}`;
    expect(mergeUsage([usage(2, 1), usage(4, 5)], 2)).toBe(
      '{"prompt_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens":12,"completion_tokens_details":{"reasoning_tokens":6,"x":null}}',
    );
  });

  test("keeps what it does not know, the order of members and every digit", () => {
    const usages = [
      '{ "x_cost" : 1.50, "completion_tokens":9007199254740993, "prompt_tokens":1 }',
      '{"completion_tokens":9007199254740993,"prompt_tokens":1,"x_cost":9}',
    ];
    expect(mergeUsage(usages, 1)).toBe('{ "x_cost" : 1.50, "completion_tokens":18014398509481986, "prompt_tokens":2 }');
  });

  test("null details stay null; those of a later part count", () => {
    const none = '{"prompt_tokens":1,"prompt_tokens_details":null}';
    expect(mergeUsage([none, none], 1)).toBe('{"prompt_tokens":2,"prompt_tokens_details":null}');
    expect(mergeUsage([none, '{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}'], 1)).toBe(
      '{"prompt_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}',
    );
  });

  test("parts without a usage are no reason to have none; all without have none", () => {
    expect(mergeUsage([undefined, '{"completion_tokens":3}'], 2)).toBe('{"completion_tokens":3}');
    expect(mergeUsage([undefined, "null"], 1)).toBeUndefined();
  });

  test("a member named like a member of every object is one like any other", () => {
    expect(mergeUsage(['{"__proto__":1,"output_tokens":1}', '{"output_tokens":2}'], 1)).toBe(
      '{"__proto__":1,"output_tokens":3}',
    );
  });
});
