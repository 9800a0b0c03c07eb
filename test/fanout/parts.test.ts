import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { GenerationRequest } from "../../src/engines/dialect.ts";
import { partsOf, refuseParts } from "../../src/fanout/parts.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { Api } from "../../src/sse/api.ts";

function request(api: Api, body: string): GenerationRequest {
  return {
    api,
    path: "/v1/x",
    doc: scanObject(body),
    stream: false,
    includeUsage: false,
    model: "m",
    engineModel: undefined,
    singleToken: false,
    wantsInputLogprobs: false,
  };
}

function bodies(api: Api, body: string): string[] | undefined {
  return partsOf(request(api, body))?.parts.map((part) => part.request.doc.text);
}

describe("a request as its parts", () => {
  test.each<[Api, string]>([
    ["chat", '{"messages":[]}'],
    ["chat", '{"messages":[],"n":1}'],
    ["chat", '{"messages":[],"n":null}'],
    ["chat", '{"messages":[],"n":2.5}'],
    ["chat", '{"messages":[],"n":-2}'],
    ["completions", '{"prompt":[1,2,3]}'],
    ["completions", '{"prompt":["a"]}'],
    ["generate", '{"text":"a","sampling_params":{"n":1}}'],
    ["messages", '{"messages":[],"n":3}'],
    ["responses", '{"input":"a","n":3}'],
  ])("%s %s is one", (api, body) => {
    expect(partsOf(request(api, body))).toBeUndefined();
    expect(refuseParts(request(api, body), 1)).toBeUndefined();
  });

  test("samples differ in nothing but the seed", () => {
    expect(bodies("chat", '{ "n": 3, "x" :1.50,"seed":9223372036854775806, "best_of":3,"messages":[] }')).toEqual([
      '{ "n": 1, "x" :1.50,"seed":9223372036854775806,"messages":[] }',
      '{ "n": 1, "x" :1.50,"seed":9223372036854775807,"messages":[] }',
      '{ "n": 1, "x" :1.50,"seed":-9223372036854775808,"messages":[] }',
    ]);
    expect(bodies("chat", '{"n":2,"messages":[]}')).toEqual(['{"n":1,"messages":[]}', '{"n":1,"messages":[]}']);
  });

  test("prompts come first, then their samples, each prompt as the client wrote it", () => {
    expect(bodies("completions", '{"prompt":["\\u0061", "b"],"n":2,"seed":1}')).toEqual([
      '{"prompt":"\\u0061","n":1,"seed":1}',
      '{"prompt":"\\u0061","n":1,"seed":2}',
      '{"prompt":"b","n":1,"seed":1}',
      '{"prompt":"b","n":1,"seed":2}',
    ]);
    expect(bodies("completions", '{"prompt":[[1, 2],[3]]}')).toEqual(['{"prompt":[1, 2]}', '{"prompt":[3]}']);
    expect(bodies("completions", '{"prompt":null,"prompt_embeds":["x","y"]}')).toEqual([
      '{"prompt":null,"prompt_embeds":"x"}',
      '{"prompt":null,"prompt_embeds":"y"}',
    ]);
  });

  test("/generate: members that come per prompt are dealt out, those for all stay", () => {
    const body =
      '{"text":["a","b"],"sampling_params":[{"temperature":0},{"temperature":1}],"return_logprob":[true,false],"logprob_start_len":0,"token_ids_logprob":[5,6],"image_data":["i"],"lora_path":[null,"l"]}';
    expect(bodies("generate", body)).toEqual([
      '{"text":"a","sampling_params":{"temperature":0},"return_logprob":true,"logprob_start_len":0,"token_ids_logprob":[5,6],"image_data":"i","lora_path":null}',
      '{"text":"b","sampling_params":{"temperature":1},"return_logprob":false,"logprob_start_len":0,"token_ids_logprob":[5,6],"lora_path":"l"}',
    ]);
    const parts = partsOf(request("generate", body))!.parts;
    expect(parts.map((part) => part.request.wantsInputLogprobs)).toEqual([true, false]);
    expect(parts.map((part) => part.prompt)).toEqual(['"a"', '"b"']);
  });

  test("/generate: n and the seed stand in the sampling parameters", () => {
    expect(bodies("generate", '{"input_ids":[1,2],"sampling_params":{"n":2,"sampling_seed":4}}')).toEqual([
      '{"input_ids":[1,2],"sampling_params":{"n":1,"sampling_seed":4}}',
      '{"input_ids":[1,2],"sampling_params":{"n":1,"sampling_seed":5}}',
    ]);
    expect(bodies("generate", '{"text":["a"],"sampling_params":[{"n":2}]}')).toEqual([
      '{"text":["a"],"sampling_params":[{"n":1}]}',
      '{"text":["a"],"sampling_params":[{"n":1}]}',
    ]);
  });

  test("there are prompts × n of them, and putting the prompts back gives the client's list", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.array(fc.nat())), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 4 }),
        (prompts, n) => {
          fc.pre(typeof prompts[0] === "string" || prompts.every((prompt) => typeof prompt !== "string"));
          const cut = partsOf(request("completions", JSON.stringify({ prompt: prompts, n, z: "kept" })));
          if (prompts.length * n === 1) return expect(cut).toBeUndefined();
          const read = cut!.parts.map((part) => JSON.parse(part.request.doc.text));
          const one = prompts.length === 1 ? [prompts] : prompts;
          expect(read).toEqual(one.flatMap((prompt) => new Array(n).fill({ prompt, n: 1, z: "kept" })));
        },
      ),
    );
  });
});

describe("more parts than may be is a 400 that names the member", () => {
  test.each<[Api, string, number, string | undefined]>([
    ["chat", '{"messages":[],"n":8}', 8, undefined],
    ["chat", '{"messages":[],"n":9}', 8, "n"],
    ["chat", '{"messages":[],"n":1000000000000}', 8, "n"],
    ["completions", '{"prompt":["a","b","c"]}', 2, "prompt"],
    ["completions", '{"prompt":["a","b","c"],"n":2}', 2, "prompt"],
    ["completions", '{"prompt":["a","b"],"n":2}', 3, "n"],
    ["generate", '{"text":["a","b"],"sampling_params":{"n":2}}', 3, "sampling_params"],
    ["generate", '{"input_ids":[[1],[2]]}', 1, "input_ids"],
    ["generate", '{"text":["a","b"],"sampling_params":[{"n":2},{}]}', 8, "sampling_params"],
    ["generate", '{"text":["a","b"],"sampling_params":[{"n":2}]}', 8, "sampling_params"],
    ["generate", '{"text":["a","b"],"return_logprob":[true,false,true]}', 8, "return_logprob"],
    ["generate", '{"text":["a","b"],"token_ids_logprob":[[1],[2],[3]]}', 8, "token_ids_logprob"],
    ["generate", '{"text":["a","b"],"image_data":["i"],"token_ids_logprob":[1,2,3]}', 8, undefined],
  ])("%s %s, at most %d: %s", (api, body, limit, param) => {
    const refused = refuseParts(request(api, body), limit);
    if (param === undefined) expect(refused).toBeUndefined();
    else expect(refused).toMatchObject({ code: "invalid_request", status: 400, stage: "router", param });
  });
});
