import { expect, test } from "bun:test";
import fc from "fast-check";
import { ownedMembers } from "../../src/engines/owned.ts";
import { dialectFor } from "../../src/engines/registry.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { RawJson } from "../../src/prefill/output.ts";
import { answer, request, target } from "./request.ts";

/** The members that a leg may lack, hold otherwise or have more than the client's body, by the table of each engine. */
const SGLANG = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];
const VLLM_PREFILL = [
  ...["stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of"],
  ...["min_tokens", "min_completion_tokens", "stop", "stop_sequences", "stop_token_ids", "logprobs", "top_logprobs"],
  "kv_transfer_params",
];

const NIXL_TEXT =
  '{"do_remote_prefill":true,"remote_block_ids":[1],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":1}';
const nixl: RawJson = { value: JSON.parse(NIXL_TEXT), text: NIXL_TEXT };
const CONTEXT =
  '{"choices":[{"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}],"prompt_token_ids":[5]}';

// Values as text with what printing would lose: digits beyond a double, trailing zeros, escapes, white space, duplicate keys.
const value = fc.oneof(
  fc.json({ depthSize: "small" }),
  fc.constantFrom(
    "1.0",
    "9223372036854775807",
    "-0",
    "1e-7",
    '"\\u00e9\\/"',
    '{ "a" : 1 , "a":2 }',
    "null",
    "[ ]",
    "true",
    "3",
  ),
);
const known = [
  ...ownedMembers,
  ...VLLM_PREFILL,
  ...["model", "prompt_token_ids", "messages", "__proto__", "prompt_logprobs", "seed", "echo"],
];
const key = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...known).map((name) => JSON.stringify(name)) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(...known)
      .map((name) => `"\\u${name.charCodeAt(0).toString(16).padStart(4, "0")}${name.slice(1)}"`),
  },
  { weight: 2, arbitrary: fc.string().map((name) => JSON.stringify(name)) },
);
const space = fc.constantFrom("", "", " ", "\n  ");
const body = fc
  .array(fc.tuple(space, key, space, space, value, space), { maxLength: 9 })
  .map((members) => `{${members.map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`).join(",")}}`);

/** Members as they are written, key and value, without those named; duplicates and order kept. */
function written(text: string, without: Iterable<string>): string[] {
  const left = new Set(without);
  const doc = scanObject(text);
  return doc.members
    .filter((member) => !left.has(member.key))
    .map((member) => doc.text.slice(member.keyStart, member.valueEnd));
}

function sameBut(sent: string, client: string, changed: readonly string[]): void {
  const without = [...ownedMembers, ...changed];
  expect(written(sent, without)).toEqual(written(client, without));
}

function noneOwned(sent: string, but: readonly string[]): void {
  for (const { key: name } of scanObject(sent).members) {
    if (ownedMembers.has(name)) expect(but).toContain(name);
  }
}

function onceEach(sent: string, names: readonly string[]): void {
  const keys = scanObject(sent).members.map((member) => member.key);
  for (const name of names) expect(keys.filter((one) => one === name)).toHaveLength(1);
}

test("SGLang: legs are the client's bytes but for the members the wire names", () => {
  fc.assert(
    fc.property(body, (text) => {
      const plan = dialectFor("sglang").plan(request(text), target, "id");
      const decode = plan.decode(plan.early!.disaggregatedParams!).body.toString();
      sameBut(plan.prefill.body.toString(), text, ["stream", "stream_options"]);
      sameBut(decode, text, []);
      for (const sent of [plan.prefill.body.toString(), decode]) {
        noneOwned(sent, SGLANG);
        onceEach(sent, SGLANG);
      }
      onceEach(plan.prefill.body.toString(), ["stream"]);
    }),
    { numRuns: 300 },
  );
});

test("vLLM: legs are the client's bytes but for the members the wire names", () => {
  fc.assert(
    fc.property(body, (text) => {
      const asked = request(text);
      const plan = dialectFor("vllm").plan(asked, target, "id");
      const decode = plan.decode(nixl).body.toString();
      sameBut(plan.prefill.body.toString(), text, VLLM_PREFILL);
      sameBut(decode, text, asked.wantsInputLogprobs ? ["prompt_logprobs"] : []);
      onceEach(plan.prefill.body.toString(), ["stream", "max_tokens", "kv_transfer_params"]);
      for (const sent of [plan.prefill.body.toString(), decode, plan.release!(nixl).body.toString()]) {
        noneOwned(sent, ["kv_transfer_params"]);
        onceEach(sent, ["kv_transfer_params"]);
      }
      const prefill = JSON.parse(plan.prefill.body.toString()) as Record<string, unknown>;
      for (const limit of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
        expect([1, undefined]).toContain(prefill[limit] as number | undefined);
      }
      expect(prefill.stream).toBe(false);
      expect(decode).toContain(NIXL_TEXT);
    }),
    { numRuns: 300 },
  );
});

test("TensorRT-LLM: legs are the client's bytes but for the members the wire names", () => {
  fc.assert(
    fc.property(body, (text) => {
      const plan = dialectFor("trtllm").plan(request(text, "chat", { singleToken: false }), target, "id");
      sameBut(plan.prefill.body.toString(), text, ["stream", "stream_options"]);
      const { data } = plan.judge(answer(CONTEXT));
      const decode = plan.decode(data!.disaggregatedParams!).body.toString();
      sameBut(decode, text, ["prompt_token_ids"]);
      for (const sent of [plan.prefill.body.toString(), decode]) {
        noneOwned(sent, ["disaggregated_params"]);
        onceEach(sent, ["disaggregated_params"]);
      }
    }),
    { numRuns: 300 },
  );
});

test("no answer, however odd, makes a judge throw or say nothing", () => {
  const odd = fc.oneof(
    fc.json(),
    fc.string(),
    fc.string().map((text) => `data: ${text}\n\n`),
    fc
      .json()
      .map(
        (json) =>
          `{"choices":[{"finish_reason":${json},"message":${json}}],"usage":${json},"kv_transfer_params":${json}}`,
      ),
    fc.json().map((json) => `{"meta_info":${json},"error":${json}}`),
    fc.json().map((json) => `data: {"choices":${json},"error":null}\n\ndata: [DONE]\n\n`),
  );
  fc.assert(
    fc.property(odd, fc.boolean(), fc.constantFrom(200, 204, 302, 400, 503), (text, truncated, status) => {
      for (const engine of ["sglang", "vllm", "trtllm"] as const) {
        const output = dialectFor(engine).plan(request("{}"), target, "id").judge(answer(text, { truncated, status }));
        expect((output.error === undefined) !== (output.data === undefined)).toBe(true);
        if (output.error !== undefined) expect(output.error).toHaveProperty("status", expect.any(Number));
      }
    }),
    { numRuns: 500 },
  );
});
