import { expect } from "bun:test";
import { ownedMembers } from "../../src/engines/owned.ts";
import { scanObject } from "../../src/json/scan.ts";
import type { Api } from "../../src/sse/api.ts";
import type { Split } from "./splits.ts";

/** JSON that the test itself vouches for. */
// biome-ignore lint/suspicious/noExplicitAny: answers are walked by path
type Json = any;

/** An answer's bytes without what differs between two askings: ids, times. */
export function withoutIds(text: string): string {
  return text.replace(/[0-9a-f]{32}/g, "ID").replace(/"created(_at)?":\d+/g, '"created$1":0');
}

/** `/generate` says in every event how many tokens came from a cache, and prefill tells only at its end. */
export function withoutRunningCounts(text: string): string {
  const events = text.split("\n\n");
  return events
    .map((event) =>
      event.includes('"finish_reason":null') ? event.replace(/"cached_tokens":\d+/, '"cached_tokens":0') : event,
    )
    .join("\n\n");
}

/** Text and end of a stream, where an answer that was complete before it was asked for came in fewer pieces. */
export function gist(text: string): unknown {
  const choice: Record<string, unknown> = {};
  let content = "";
  for (const event of text.split("\n\n")) {
    const data = event.replace(/^data: /, "");
    if (data === "" || data === "[DONE]") continue;
    const { choices, usage, model } = JSON.parse(data) as Json;
    for (const one of choices) {
      content += one.text ?? one.delta.content ?? "";
      for (const call of one.delta?.tool_calls ?? [])
        content += (call.function.name ?? "") + (call.function.arguments ?? "");
      if (one.finish_reason) choice.finish = one.finish_reason;
    }
    if (usage) choice.usage = usage;
    choice.model = model;
  }
  return { ...choice, content };
}

/** Choices of a stream in any order between them, each in its own. */
export function byChoice(text: string): Record<string, string[]> {
  const lists: Record<string, string[]> = {};
  for (const event of text.split("\n\n")) {
    const index = /"index":(\d+)/.exec(event)?.[1] ?? "none";
    lists[index] ??= [];
    lists[index].push(event);
  }
  return lists;
}

const VLLM_PREFILL = [
  ...[
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "ignore_eos",
    "min_tokens",
    "min_completion_tokens",
  ],
  ...["n", "best_of", "stop", "stop_sequences", "stop_token_ids", "logprobs", "top_logprobs", "kv_transfer_params"],
];
const BOOTSTRAP = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];

/** Members that a leg may lack, hold otherwise or have more than the client's body (wire facts of each engine). */
export function changedBy({ engine }: Split, leg: "prefill" | "decode", body: string): readonly string[] {
  if (engine === "sglang") return leg === "prefill" ? ["stream", "stream_options", ...BOOTSTRAP] : BOOTSTRAP;
  if (engine === "trtllm") {
    const own = ["disaggregated_params"];
    return leg === "prefill" ? ["stream", "stream_options", "prompt", ...own] : ["prompt", "prompt_token_ids", ...own];
  }
  if (leg === "prefill") return VLLM_PREFILL;
  const { echo, logprobs, prompt_logprobs } = JSON.parse(body) as Json;
  return [
    "kv_transfer_params",
    ...(prompt_logprobs === undefined || prompt_logprobs === null ? [] : ["prompt_logprobs"]),
    ...(echo === true && typeof logprobs === "number" ? ["echo"] : []),
  ];
}

/** The members that came from the client are the client's bytes, in the client's order. */
export function expectClientBytes(
  leg: string,
  client: string,
  changed: readonly string[],
  model: string | undefined,
): void {
  const without = new Set([...ownedMembers, ...changed, ...(model === undefined ? [] : ["model"])]);
  expect(written(leg, without)).toEqual(written(client, without));
  if (model !== undefined) expect(JSON.parse(leg).model).toBe(model);
}

/** Of duplicates of a member that is changed only the last one may be left; the others keep theirs. */
function written(text: string, without: ReadonlySet<string>): string[] {
  const doc = scanObject(text);
  return doc.members
    .filter(({ key }) => !without.has(key))
    .map(({ keyStart, valueEnd }) => doc.text.slice(keyStart, valueEnd));
}

export function bodyOf(api: Api, model: string, members: string, stream: boolean): string {
  // `/generate` needs no model, and its engines read none.
  const head = api === "generate" && model === "demo-model" ? "" : `"model":"${model}",`;
  return `{${head}${members}${stream ? ',"stream":true' : ""}}`;
}
