import { describe, expect, test } from "bun:test";
import { asksInputLogprobs, asksSingleToken } from "../../src/engines/asks.ts";
import type { EngineName } from "../../src/engines/dialect.ts";
import { aggregatedLeg, openai } from "../../src/engines/openai.ts";
import { dialectFor } from "../../src/engines/registry.ts";
import { countPrompts, countSamples, onlyPrompt } from "../../src/engines/sequences.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { Api } from "../../src/sse/api.ts";
import { request, target } from "./request.ts";

const sglang = dialectFor("sglang");
const vllm = dialectFor("vllm");
const trtllm = dialectFor("trtllm");
const all = [sglang, vllm, trtllm];

describe("prompts of a body", () => {
  test.each<[Api, string, number]>([
    ["completions", '{"prompt":"a"}', 1],
    ["completions", '{"prompt":["a","b"]}', 2],
    ["completions", '{"prompt":[ "a" ]}', 1],
    ["completions", '{"prompt":[1,2,3]}', 1],
    ["completions", '{"prompt":[\t-1]}', 1],
    ["completions", '{"prompt":[[1,2],[3]]}', 2],
    ["completions", '{"prompt":[[1,2]]}', 1],
    ["completions", '{"prompt":[]}', 0],
    ["completions", '{"prompt":[ ]}', 0],
    ["completions", '{"prompt":null,"prompt_embeds":"x"}', 1],
    ["completions", '{"prompt":"a","prompt":["a","b"]}', 2],
    ["completions", '{"prompt_embeds":["x","y"]}', 2],
    ["completions", "{}", 1],
    ["generate", '{"text":["a","b","c"]}', 3],
    ["generate", '{"text":null,"input_ids":[[1],[2]]}', 2],
    ["generate", '{"input_ids":[1,2]}', 1],
    ["generate", '{"input_embeds":[[0.1,0.2],[0.3,0.4]]}', 1],
    ["generate", '{"input_embeds":[[[0.1],[0.2]],[[0.3]]]}', 2],
    ["generate", '{"text":[]}', 0],
    ["chat", '{"messages":[{},{}],"prompt":["a","b"]}', 1],
    ["responses", '{"input":[{},{}]}', 1],
    ["messages", '{"messages":[]}', 1],
  ])("%s %s: %d", (api, body, count) => {
    expect(countPrompts(api, scanObject(body)).count).toBe(count);
  });

  test.each<[string, string | undefined]>([
    ['{"prompt":[ "\\u0061" ]}', '"\\u0061"'],
    ['{"prompt":[[1, 2]]}', "[1, 2]"],
    ['{"prompt":[1]}', undefined],
    ['{"prompt":["a","b"]}', undefined],
    ['{"prompt":"a"}', undefined],
    ['{"prompt":[]}', undefined],
  ])("the one prompt that %s wraps in a list: %s", (body, prompt) => {
    expect(onlyPrompt(scanObject(body))).toBe(prompt);
  });

  test.each<[Api, string, number]>([
    ["chat", '{"n":3}', 3],
    ["chat", '{"n":"3"}', 3],
    ["chat", '{"n":null}', 1],
    ["chat", '{"n":0}', 1],
    ["chat", '{"n":"x"}', 1],
    ["chat", "{}", 1],
    ["completions", '{"n":1,"n":2}', 2],
    ["generate", '{"n":5,"sampling_params":{"n":2}}', 2],
    ["generate", '{"sampling_params":[{"n":1},{"n":4},null]}', 4],
    ["generate", '{"sampling_params":null}', 1],
    ["messages", '{"n":5}', 1],
  ])("samples of %s %s: %d", (api, body, count) => {
    expect(countSamples(api, scanObject(body))).toBe(count);
  });
});

describe("what a split cannot give is a 400 that names the member", () => {
  const every: [Api, string, string][] = [
    ["completions", '{"prompt":[]}', "prompt"],
    ["completions", '{"prompt":null,"prompt_embeds":[]}', "prompt_embeds"],
    ["completions", '{"prompt":"a","prompt_embeds":"x"}', "prompt_embeds"],
    ["completions", '{"prompt":"a","best_of":3}', "best_of"],
    ["completions", '{"prompt":"a","n":2,"best_of":3}', "best_of"],
  ];
  const rows: [EngineName, Api, string, string][] = [
    ...all.flatMap(({ engine }) => every.map((row): [EngineName, Api, string, string] => [engine, ...row])),
    ["sglang", "generate", '{"input_ids":[]}', "input_ids"],
    ["sglang", "responses", '{"input":"a","previous_response_id":"r"}', "previous_response_id"],
    ["sglang", "responses", '{"input":"a","background":true}', "background"],
    ["vllm", "responses", '{"input":"a","previous_response_id":"r"}', "previous_response_id"],
    ["vllm", "responses", '{"input":"a","background":true}', "background"],
    ["vllm", "generate", '{"text":"a"}', "endpoint"],
    ["vllm", "chat", '{"use_beam_search":true}', "use_beam_search"],
    ["vllm", "chat", '{"stream":true,"prompt_logprobs":1}', "prompt_logprobs"],
    ["vllm", "chat", '{"stream":true,"prompt_logprobs":-1}', "prompt_logprobs"],
    ["vllm", "chat", '{"echo":true}', "echo"],
    ["vllm", "chat", '{"echo":1,"logprobs":true}', "echo"],
    ["trtllm", "completions", '{"prompt":"a","echo":true,"logprobs":0}', "echo"],
    ["vllm", "chat", '{"max_tokens":0}', "max_tokens"],
    ["vllm", "chat", '{"max_completion_tokens":-1}', "max_completion_tokens"],
    ["trtllm", "responses", '{"input":"a"}', "endpoint"],
    ["trtllm", "messages", '{"messages":[]}', "endpoint"],
    ["trtllm", "chat", '{"prompt_logprobs":1}', "prompt_logprobs"],
    ["trtllm", "chat", '{"use_beam_search":true}', "use_beam_search"],
    ["openai", "chat", "{}", "endpoint"],
  ];
  test.each(rows)("%s: %s %s → %s", (engine, api, body, param) => {
    expect(dialectFor(engine).refuse(request(body, api))).toMatchObject({
      code: "invalid_request",
      status: 400,
      stage: "router",
      param,
    });
  });

  test.each<[Api, string]>([
    ["chat", '{"n":1,"messages":[],"stream":true,"logprobs":true,"top_logprobs":2}'],
    ["chat", '{"prompt_logprobs":null,"echo":false,"use_beam_search":false,"max_tokens":1}'],
    ["completions", '{"prompt":[1,2],"n":null,"best_of":1,"echo":true,"logprobs":null}'],
    ["completions", '{"prompt":["a"],"logprobs":5}'],
    ["chat", '{"n":2}'],
    ["completions", '{"prompt":["a","b"],"n":2,"best_of":2}'],
    ["completions", '{"prompt":[[1],[2]],"prompt_embeds":null}'],
  ])("%s %s can be split by every engine", (api, body) => {
    for (const dialect of all) expect(dialect.refuse(request(body, api))).toBeUndefined();
  });

  test("vLLM gives prompt_logprobs with a buffered answer; responses that refer to nothing pass", () => {
    expect(vllm.refuse(request('{"prompt_logprobs":3}'))).toBeUndefined();
    // In a stream the engine takes none of them, and shows none.
    expect(vllm.refuse(request('{"prompt_logprobs":0,"stream":true}'))).toBeUndefined();
    for (const dialect of [sglang, vllm]) {
      expect(dialect.refuse(request('{"prompt":"a","echo":true,"logprobs":2}', "completions"))).toBeUndefined();
    }
    for (const dialect of [sglang, vllm]) {
      expect(dialect.refuse(request('{"previous_response_id":null,"background":false}', "responses"))).toBeUndefined();
    }
  });
});

describe("what routes have to know of a body", () => {
  test.each<[Api, string, boolean]>([
    ["chat", '{"prompt_logprobs":0}', true],
    ["chat", '{"prompt_logprobs":null}', false],
    ["completions", '{"echo":true,"logprobs":0}', true],
    ["completions", '{"echo":true}', false],
    ["completions", '{"logprobs":5}', false],
    ["generate", '{"return_logprob":true}', true],
    ["generate", '{"return_logprob":true,"logprob_start_len":0}', true],
    ["generate", '{"return_logprob":true,"logprob_start_len":-1}', false],
    ["generate", '{"return_logprob":[false,true]}', true],
    ["generate", '{"return_logprob":false,"prompt_logprobs":1}', false],
    ["messages", '{"prompt_logprobs":1}', false],
  ])("input logprobs, %s %s: %p", (api, body, asked) => {
    expect(asksInputLogprobs(api, scanObject(body))).toBe(asked);
  });

  test.each<[string, boolean]>([
    ['{"max_tokens":1}', true],
    ['{"max_tokens":2}', false],
    ['{"max_completion_tokens":1,"max_tokens":2}', true],
    ['{"max_completion_tokens":2,"max_tokens":1}', false],
    ['{"max_completion_tokens":null,"max_tokens":1}', true],
    ["{}", false],
  ])("single token, %s: %p", (body, single) => {
    expect(asksSingleToken(scanObject(body))).toBe(single);
  });
});

describe("the registry", () => {
  test("gives each connector its dialect, nixl where none is named", () => {
    const dialects = [
      dialectFor("vllm"),
      dialectFor("vllm", "nixl"),
      dialectFor("vllm", "nixl-push"),
      dialectFor("vllm", "mooncake"),
    ];
    expect(new Set(dialects).size).toBe(3);
    expect(dialects.map(({ concurrent }) => concurrent)).toEqual([false, false, true, true]);
    expect(dialectFor("vllm", "nixl")).toBe(dialectFor("vllm"));
  });

  test("an aggregated request is the client's body less the router's members, under the engines' name", () => {
    const body = '{"model":"fast", "n":2,"rid":"x","stream":true,"kv_transfer_params":{}}';
    const leg = aggregatedLeg(request(body, "chat", { engineModel: '"m"' }));
    expect(leg.path).toBe("/v1/chat/completions");
    expect(leg.body.toString()).toBe('{"model":"m", "n":2,"stream":true}');
    expect(aggregatedLeg(request('{"a":1}')).body.toString()).toBe('{"a":1}');
    expect(() => openai.plan(request("{}"), target, "id")).toThrow(
      expect.objectContaining({ code: "invalid_request" }),
    );
  });
});

describe("what vLLM's decode would refuse after prefill is refused before, so that no blocks are filled for nobody", () => {
  test.each<[Api, string, string]>([
    ["chat", '{"stream_options":{"include_usage":true}}', "stream_options"],
    ["chat", '{"top_logprobs":2}', "top_logprobs"],
    ["chat", '{"max_tokens":"abc"}', "max_tokens"],
    ["chat", '{"max_completion_tokens":1.5}', "max_completion_tokens"],
    ["responses", '{"max_output_tokens":"x"}', "max_output_tokens"],
    ["responses", '{"stop":[1]}', "stop"],
    ["chat", '{"stop_token_ids":[1,"x"]}', "stop_token_ids"],
    ["chat", '{"stop":[1]}', "stop"],
    ["chat", '{"stop":{}}', "stop"],
    ["chat", '{"stop":""}', "stop"],
    ["chat", '{"stop":["a",""]}', "stop"],
    ["chat", '{"top_logprobs":-5,"logprobs":true}', "top_logprobs"],
    ["completions", '{"logprobs":-5}', "logprobs"],
    ["chat", `{"stop":[${'"abc",'.repeat(300_000)}1]}`, "stop"],
    ["messages", '{"stop_sequences":[1]}', "stop_sequences"],
    ["chat", '{"use_beam_search":1}', "use_beam_search"],
    ["chat", '{"use_beam_search":"true"}', "use_beam_search"],
    ["responses", '{"background":1}', "background"],
  ])("%s %.60s", (api, body, param) => {
    for (const connector of ["nixl", "nixl-push", "mooncake"] as const) {
      const failure = dialectFor("vllm", connector).refuse(request(body, api));
      expect(failure).toMatchObject({ status: 400, stage: "router", param });
    }
  });

  test.each<[Api, string]>([
    ["chat", '{"stream":true,"stream_options":{"include_usage":true}}'],
    ["chat", '{"stream_options":null,"stop":null,"max_tokens":null}'],
    ["chat", '{"top_logprobs":2,"logprobs":true}'],
    ["chat", '{"top_logprobs":0}'],
    ["chat", '{"top_logprobs":2,"logprobs":1}'],
    ["chat", '{"stream_options":{}}'],
    ["chat", `{"stop":["${"x".repeat(1_000_000)}"${',"abc"'.repeat(1_000_000)}]}`],
    ["chat", '{"max_tokens":"16"}'],
    ["chat", '{"max_tokens":1e2}'],
    ["chat", '{"stop_token_ids":[ 1 , 2 ]}'],
    ["chat", '{"stop_token_ids":[]}'],
    ["chat", '{"stop":"\\n"}'],
    ["chat", '{"stop":["a\\"b", "]"]}'],
    ["messages", '{"stop_sequences":["x"]}'],
    ["chat", '{"use_beam_search":false}'],
    ["responses", '{"background":false}'],
    ["responses", '{"max_output_tokens":true}'],
    ["chat", '{"stop_token_ids":[1.0,"2"],"max_tokens":true}'],
    ["chat", '{"max_output_tokens":0,"stop_sequences":[1]}'],
    ["responses", '{"stop":"","logprobs":-5,"max_tokens":"x"}'],
    ["messages", '{"stop":[1],"stop_token_ids":["x"],"logprobs":-5,"max_completion_tokens":"x"}'],
  ])("%s %.60s passes", (api, body) => {
    expect(vllm.refuse(request(body, api))).toBeUndefined();
  });
});
