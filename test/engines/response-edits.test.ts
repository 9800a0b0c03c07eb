import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { GenerationRequest } from "../../src/engines/dialect.ts";
import type { InputLogprobs } from "../../src/engines/input-logprobs.ts";
import { promptTokensDetails } from "../../src/engines/prompt-usage.ts";
import { dialectFor } from "../../src/engines/registry.ts";
import { editAnswer, eventEdits } from "../../src/engines/response-edits.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { PrefillTail } from "../../src/prefill/task.ts";
import type { Api, EventMeaning } from "../../src/sse/api.ts";
import { request, target } from "./request.ts";

const NOTHING: EventMeaning = { answers: false, finishes: false, end: false, usage: false, failure: undefined };
const MORE = { ...NOTHING, answers: true };
const USAGE = { ...NOTHING, usage: true };
const FINISH = { ...MORE, finishes: true };
const aliased: Partial<GenerationRequest> = { model: "gpt-x", engineModel: '"org/model-8b"' };

function cached(tokens: number, more: object = {}): PrefillTail {
  return { promptTokensDetails: { cached_tokens: tokens, ...more } };
}

describe("an alias", () => {
  const rows: [Api, string, string][] = [
    [
      "chat",
      '{"id":"c","model" : "org/model-8b","choices":[{"message":{"content":"org/model-8b \\"model\\":1"}}]}',
      '{"id":"c","model" : "gpt-x","choices":[{"message":{"content":"org/model-8b \\"model\\":1"}}]}',
    ],
    [
      "responses",
      '{"output":[{"model":"org/model-8b"}],"model":"org/model-8b"}',
      '{"output":[{"model":"org/model-8b"}],"model":"gpt-x"}',
    ],
    ["messages", '{"model":"org/model-8b","content":[]}', '{"model":"gpt-x","content":[]}'],
    ["completions", '{"model":"a","x":1,"model":"org/model-8b"}', '{"model":"a","x":1,"model":"gpt-x"}'],
    ["generate", '{"text":"org/model-8b"}', '{"text":"org/model-8b"}'],
  ];
  test.each(rows)("stands in a buffered answer of %s, and nothing else is changed", (api, text, expected) => {
    expect(editAnswer(request("{}", api, aliased), text, undefined)).toBe(expected);
  });

  test.each<[Api, string, string | undefined]>([
    ["chat", '{"model":"org/model-8b","choices":[]}', '{"model":"gpt-x","choices":[]}'],
    ["completions", '{"choices":[],"model":"org/model-8b"}', '{"choices":[],"model":"gpt-x"}'],
    [
      "responses",
      '{"type":"response.created","response":{"model":"org/model-8b"}}',
      '{"type":"response.created","response":{"model":"gpt-x"}}',
    ],
    ["responses", '{"type":"response.output_text.delta","delta":"org/model-8b"}', undefined],
    ["responses", '{"model":"org/model-8b","item":{"model":"m"}}', '{"model":"org/model-8b","item":{"model":"m"}}'],
    [
      "messages",
      '{"type":"message_start","message":{"model":"org/model-8b"}}',
      '{"type":"message_start","message":{"model":"gpt-x"}}',
    ],
    ["messages", '{"type":"content_block_delta","delta":{"text":"x"}}', undefined],
    ["generate", '{"text":"x","meta_info":{"model":"m"}}', '{"text":"x","meta_info":{"model":"m"}}'],
  ])("stands in the events of %s that name the model", (api, data, expected) => {
    const edits = eventEdits(request("{}", api, aliased));
    expect(edits.everyEvent).toBe(true);
    expect(edits.needsTail).toBe(false);
    expect(edits.edit(data, MORE, undefined)).toBe(expected!);
  });

  test("is put in by place, however the events of a stream begin", () => {
    const name = fc.constantFrom('"org/model-8b"', '"other"', "null", '"m\\"x"', "{}");
    const member = fc.oneof(
      name.map((value) => `"model":${value}`),
      name.map((value) => `"model": ${value} `),
      fc.constantFrom(
        '"id":"c"',
        '"id":"model"',
        '"created":1',
        '"choices":[{"model":"m","delta":{"content":"\\"model\\":"}}]',
      ),
    );
    const event = fc.array(member, { maxLength: 5 }).map((members) => `{${members.join(",")}}`);
    fc.assert(
      fc.property(fc.array(event, { maxLength: 6 }), (events) => {
        const edits = eventEdits(request("{}", "chat", aliased));
        for (const data of events) {
          // The same stream's events begin alike: each comes twice.
          for (const text of [data, data]) {
            const edited = edits.edit(text, MORE, undefined) ?? text;
            const expected = JSON.parse(text) as Record<string, unknown>;
            if ("model" in expected) expected.model = "gpt-x";
            expect(JSON.parse(edited)).toEqual(expected);
            expect(edited.length - text.length).toBe(
              "model" in expected ? '"gpt-x"'.length - lastModel(text).length : 0,
            );
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test("leaves the end mark and what is no JSON object as they are", () => {
    const edits = eventEdits(request("{}", "chat", aliased));
    expect(edits.edit("[DONE]", NOTHING, undefined)).toBeUndefined();
    expect(edits.edit('["model"]', MORE, undefined) ?? '["model"]').toBe('["model"]');
    expect(editAnswer(request("{}", "chat", aliased), '[{"model":"m"}]', cached(1))).toBe('[{"model":"m"}]');
  });
});

function lastModel(text: string): string {
  const doc = scanObject(text);
  const member = doc.members.findLast(({ key }) => key === "model")!;
  return text.slice(member.valueStart, member.valueEnd);
}

describe("cached tokens are prefill's", () => {
  test.each<[Api, string, string]>([
    [
      "chat",
      '{"usage":{"prompt_tokens":2000,"prompt_tokens_details":{"cached_tokens":1999,"audio_tokens":0},"x":1.50}}',
      '{"usage":{"prompt_tokens":2000,"prompt_tokens_details":{"cached_tokens":128,"audio_tokens":0},"x":1.50}}',
    ],
    [
      "completions",
      '{"usage":{"prompt_tokens":100}}',
      '{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":100}}}',
    ],
    ["chat", '{"usage":{"prompt_tokens_details":null}}', '{"usage":{"prompt_tokens_details":{"cached_tokens":128}}}'],
    ["chat", '{"usage":{"prompt_tokens_details":{}}}', '{"usage":{"prompt_tokens_details":{"cached_tokens":128}}}'],
    ["chat", '{"usage":{}}', '{"usage":{"prompt_tokens_details":{"cached_tokens":128}}}'],
    ["chat", '{"usage":null}', '{"usage":null}'],
    ["chat", '{"choices":[{"usage":{"prompt_tokens":1}}]}', '{"choices":[{"usage":{"prompt_tokens":1}}]}'],
    [
      "responses",
      '{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8}}}',
      '{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":9}}}',
    ],
    [
      "generate",
      '{"meta_info":{"prompt_tokens":500,"cached_tokens":499}}',
      '{"meta_info":{"prompt_tokens":500,"cached_tokens":128}}',
    ],
  ])("%s, buffered: never above the prompt", (api, text, expected) => {
    expect(editAnswer(request("{}", api), text, cached(128))).toBe(expected);
    expect(editAnswer(request("{}", api), text, undefined)).toBe(text);
    expect(editAnswer(request("{}", api), text, { promptTokensDetails: {} })).toBe(text);
  });

  test("with what belongs to them, where decode tells it (seen on a real pair)", () => {
    const told = promptTokensDetails(
      "chat",
      scanObject(
        '{"usage":{"prompt_tokens":328,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":320,"multimodal_tokens":null}}}',
      ),
    )!;
    const decode =
      '{"usage":{"prompt_tokens":328,"prompt_tokens_details":{"cached_tokens":327,"created_cache_tokens":0}}}';
    expect(editAnswer(request("{}"), decode, { promptTokensDetails: told })).toBe(
      '{"usage":{"prompt_tokens":328,"prompt_tokens_details":{"cached_tokens":0,"created_cache_tokens":320}}}',
    );
    expect(editAnswer(request("{}"), '{"usage":{"prompt_tokens":328}}', { promptTokensDetails: told })).toBe(
      '{"usage":{"prompt_tokens":328,"prompt_tokens_details":{"cached_tokens":0}}}',
    );
  });

  test("SGLang says none by saying nothing: decode's number is put right, and nothing is added", () => {
    const silent = '{"choices":[],"usage":{"prompt_tokens":2000,"prompt_tokens_details":null}}';
    const tail = dialectFor("sglang").plan(request("{}"), target, "id-1").judge({
      status: 200,
      headers: new Headers(),
      text: silent,
      truncated: false,
    });
    const told = { promptTokensDetails: tail.data!.completionUsage!.promptTokensDetails };
    const decode = '{"usage":{"prompt_tokens":2000,"prompt_tokens_details":{"cached_tokens":1999}}}';
    expect(editAnswer(request("{}"), decode, told)).toBe(decode.replace("1999", "0"));
    for (const says of [silent, '{"usage":{"prompt_tokens":2000}}'])
      expect(editAnswer(request("{}"), says, told)).toBe(says);
  });

  test("decode's own hand-off never reaches the client; null is vLLM's usual and stays", () => {
    const kv = '"kv_transfer_params":{"remote_host":"10.0.0.7","remote_port":5600}';
    expect(editAnswer(request("{}"), `{"id":"a",${kv},"choices":[]}`, undefined)).toBe('{"id":"a","choices":[]}');
    const usual = '{"id":"a","kv_transfer_params":null}';
    expect(editAnswer(request("{}"), usual, undefined)).toBe(usual);
  });

  test("messages: what was read and written is counted apart from the rest of the prompt (vLLM)", () => {
    const prefill =
      '{"usage":{"input_tokens":8,"output_tokens":1,"cache_creation_input_tokens":256,"cache_read_input_tokens":64}}';
    const told = promptTokensDetails("messages", scanObject(prefill))!;
    const decode =
      '{"usage":{"input_tokens":1,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":327}}';
    const expected =
      '{"usage":{"input_tokens":8,"output_tokens":4,"cache_creation_input_tokens":256,"cache_read_input_tokens":64}}';
    expect(editAnswer(request("{}", "messages"), decode, { promptTokensDetails: told })).toBe(expected);
    const edits = eventEdits(request('{"stream":true}', "messages"));
    const start = '{"type":"message_start","message":{"usage":{"input_tokens":328,"output_tokens":0}}}';
    expect(edits.edit(start, USAGE, { promptTokensDetails: told }) ?? start).toBe(start);
    const end = `{"type":"message_delta",${decode.slice(1)}`;
    expect(edits.edit(end, { ...FINISH, usage: true }, { promptTokensDetails: told })).toBe(
      `{"type":"message_delta",${expected.slice(1)}`,
    );
  });

  test("in a stream the one event with the answer's usage, not a count that runs along", () => {
    const edits = eventEdits(request('{"stream":true}'));
    expect(edits.everyEvent).toBe(false);
    const running = '{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9}}';
    expect(edits.edit(running, { ...MORE, usage: true }, cached(4)) ?? running).toBe(running);
    const role = '{"choices":[{"delta":{"role":"assistant"}}],"usage":{"prompt_tokens":9}}';
    expect(edits.edit(role, USAGE, cached(4)) ?? role).toBe(role);
    const finish =
      '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}}';
    expect(edits.edit(finish, { ...FINISH, usage: true }, cached(4))).toBe(finish.replace('tokens":8', 'tokens":4'));
    const last = '{"choices":[],"usage":{"prompt_tokens":9}}';
    expect(edits.edit(last, USAGE, cached(4))).toBe(
      '{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}',
    );
    expect(edits.edit(last, USAGE, undefined) ?? last).toBe(last);
  });

  test("responses: in the response of the last event", () => {
    const edits = eventEdits(request('{"stream":true}', "responses", aliased));
    const data =
      '{"type":"response.completed","response":{"model":"org/model-8b","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":8}}}}';
    expect(edits.edit(data, { ...FINISH, usage: true }, cached(2))).toBe(
      '{"type":"response.completed","response":{"model":"gpt-x","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2}}}}',
    );
  });
});

describe("the prompt's logprobs are prefill's", () => {
  const lists: InputLogprobs = {
    members: [
      { key: "input_token_logprobs", raw: "[[-0.10,1,null]]" },
      { key: "input_top_logprobs", raw: "[null]" },
    ],
  };
  const asks = '{"text":"a","return_logprob":true,"logprob_start_len":0}';

  test("/generate: in every event, the way the engine repeats them, with incremental text as with cumulative", () => {
    const edits = eventEdits(request(asks, "generate", { stream: true }));
    expect([edits.everyEvent, edits.needsTail]).toEqual([true, true]);
    for (const text of ["a", "a b", " c"]) {
      const data = `{"text":"${text}","meta_info":{"input_token_logprobs":[],"output_token_logprobs":[[-1.0,5,null]]}}`;
      expect(edits.edit(data, MORE, { inputLogprobs: lists })).toBe(
        `{"text":"${text}","meta_info":{"input_token_logprobs":[[-0.10,1,null]],"output_token_logprobs":[[-1.0,5,null]],"input_top_logprobs":[null]}}`,
      );
    }
  });

  test("/generate, buffered; nothing where they were not asked for", () => {
    const text = '{"text":"x","meta_info":{"output_token_logprobs":[[-1.0,5,null]]}}';
    expect(editAnswer(request(asks, "generate"), text, { inputLogprobs: lists })).toBe(
      '{"text":"x","meta_info":{"output_token_logprobs":[[-1.0,5,null]],"input_token_logprobs":[[-0.10,1,null]],"input_top_logprobs":[null]}}',
    );
    expect(editAnswer(request('{"text":"a"}', "generate"), text, { inputLogprobs: lists })).toBe(text);
    expect(eventEdits(request('{"text":"a"}', "generate", { stream: true })).everyEvent).toBe(false);
  });

  test("prompt_logprobs stand where vLLM has them; a stream has no place for them and waits for nothing", () => {
    const told: InputLogprobs = { members: [{ key: "prompt_logprobs", raw: "[null,{}]" }] };
    expect(
      editAnswer(request('{"prompt_logprobs":1}'), '{"choices":[],"prompt_logprobs":null}', { inputLogprobs: told }),
    ).toBe('{"choices":[],"prompt_logprobs":[null,{}]}');
    expect(
      editAnswer(request('{"prompt_logprobs":1}', "completions"), '{"choices":[{"text":"a","prompt_logprobs":null}]}', {
        inputLogprobs: told,
      }),
    ).toBe('{"choices":[{"text":"a","prompt_logprobs":[null,{}]}]}');
    const edits = eventEdits(request('{"prompt_logprobs":0,"stream":true}'));
    expect([edits.everyEvent, edits.needsTail]).toEqual([false, false]);
  });
});

describe("an echo with logprobs", () => {
  const asks = '{"prompt":"ab","echo":true,"logprobs":1,"stream":true}';
  const vllm: InputLogprobs = {
    members: [{ key: "prompt_logprobs", raw: "[null]" }],
    echo: {
      text: "\u00e4\ud83d\ude42",
      lists: new Map([
        ["text_offset", "0,1"],
        ["tokens", '"\\u00e4","x"'],
        ["token_logprobs", "null,-1.50"],
      ]),
      shift: 2,
    },
  };
  const choice = (text: string, offset: string) =>
    `{"choices":[{"text":"${text}","logprobs":{"text_offset":${offset},"token_logprobs":[-2.0],"tokens":["u"],"x":[7]}}]}`;

  test("buffered: the prompt in front of the text and of each list, decode's offsets behind it", () => {
    expect(JSON.parse(editAnswer(request(asks, "completions"), choice("u", "[0]"), { inputLogprobs: vllm }))).toEqual({
      choices: [
        {
          text: "\u00e4\ud83d\ude42u",
          logprobs: { text_offset: [0, 1, 2], token_logprobs: [null, -1.5, -2], tokens: ["\u00e4", "x", "u"], x: [7] },
          prompt_logprobs: [null],
        },
      ],
    });
  });

  test("streamed: once, in the first event; the offsets of all others go on from it", () => {
    const edits = eventEdits(request(asks, "completions"));
    expect([edits.everyEvent, edits.needsTail]).toEqual([true, true]);
    const first = JSON.parse(edits.edit(choice("u", "[0]"), MORE, { inputLogprobs: vllm })!);
    expect(first.choices[0].text).toBe("\u00e4\ud83d\ude42u");
    expect(first.choices[0].logprobs.tokens).toEqual(["\u00e4", "x", "u"]);
    expect(first.choices[0]).not.toHaveProperty("prompt_logprobs");
    expect(edits.edit(choice("v", "[1]"), MORE, { inputLogprobs: vllm })).toBe(choice("v", "[3]"));
  });

  test("SGLang: decode has echoed the text, and its offsets mean nothing", () => {
    const sglang: InputLogprobs = {
      members: [],
      echo: { text: undefined, lists: new Map([["text_offset", "-1,-1"]]), shift: 0 },
    };
    const edits = eventEdits(request(asks, "completions"));
    expect(edits.edit(choice("abu", "[-1]"), MORE, { inputLogprobs: sglang })).toBe(choice("abu", "[-1,-1,-1]"));
    expect(edits.edit(choice("v", "[-1]"), MORE, { inputLogprobs: sglang })).toBe(choice("v", "[-1]"));
  });
});
