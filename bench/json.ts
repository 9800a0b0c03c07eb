/**
 * What a request's body costs: one scan and two splices (a prefill leg and a decode leg), beside one `JSON.parse` and
 * two `JSON.stringify` of the edited object. Both sides are measured to the bytes of both legs: a spliced string is a tree
 * of slices until someone reads it, and sending it does.
 *
 *     bun bench/json.ts
 */
import { scanObject } from "../src/json/scan.ts";
import { splice } from "../src/json/splice.ts";

const OWNED = [
  "bootstrap_host",
  "bootstrap_port",
  "bootstrap_room",
  "kv_transfer_params",
  "disaggregated_params",
  "rid",
  "request_id",
  "data_parallel_rank",
  "routed_dp_rank",
  "disagg_prefill_dp_rank",
  "bootstrap_pair_key",
  "ec_transfer_params",
];
const PREFILL_DROP: ReadonlySet<string> = new Set([...OWNED, "stream_options", "max_completion_tokens"]);
const DECODE_DROP: ReadonlySet<string> = new Set(OWNED);
const PREFILL_SET = {
  stream: "false",
  max_tokens: "1",
  kv_transfer_params: '{"do_remote_decode":true,"do_remote_prefill":false}',
};
const DECODE_SET = {
  kv_transfer_params: '{"do_remote_prefill":true,"remote_engine_id":"a","remote_block_ids":[1,2,3],"remote_port":5600}',
};
const PREFILL_VALUES = valuesOf(PREFILL_SET);
const DECODE_VALUES = valuesOf(DECODE_SET);

function valuesOf(set: Record<string, string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(set).map(([key, raw]) => [key, JSON.parse(raw)]));
}

const PROSE = "The quick brown fox jumps over the lazy dog, and the router hands its blocks over. ";
const CODE = 'if (line === "") {\n\treturn done;\n}\n';

/** A body of about `bytes`, its text in messages of `messageLength` characters each. */
function bodyOf(bytes: number, messageLength: number, phrase: string): string {
  const messages: { role: string; content: string }[] = [];
  let left = bytes - 190;
  while (left > 0 || messages.length === 0) {
    const length = Math.max(1, Math.min(left - 30, messageLength));
    const content = phrase.repeat(Math.ceil(length / phrase.length)).slice(0, length);
    messages.push({ role: messages.length % 2 === 0 ? "user" : "assistant", content });
    left -= JSON.stringify(content).length + 30;
  }
  const text = JSON.stringify({
    model: "demo-model",
    messages,
    temperature: 0.7,
    top_p: 0.95,
    max_tokens: 512,
    stream: true,
    stream_options: { include_usage: true },
    seed: 42,
    stop: ["</s>"],
    user: "someone",
  });
  // As from a network: a flat string that nothing has parsed or printed before.
  return new TextDecoder().decode(new TextEncoder().encode(text));
}

const BODIES: Record<string, string> = {
  "300 B": bodyOf(300, 110, PROSE),
  "1 KB": bodyOf(1 << 10, 300, PROSE),
  "64 KB, one string": bodyOf(64 << 10, Infinity, PROSE),
  "64 KB, one string of code": bodyOf(64 << 10, 36_000, CODE),
  "64 KB, many messages": bodyOf(64 << 10, 120, PROSE),
  "64 KB, many short messages": bodyOf(64 << 10, 20, PROSE),
  "64 KB, not Latin-1": bodyOf(64 << 10, 2_000, `${PROSE}日本語。`),
  "16 MB, one string": bodyOf(16 << 20, Infinity, PROSE),
  "16 MB, many messages": bodyOf(16 << 20, 500, PROSE),
};

function scanOnly(text: string): number {
  return scanObject(text).members.length;
}

function spliceLegs(text: string): number {
  const doc = scanObject(text);
  const prefill = splice(doc, { drop: PREFILL_DROP, set: PREFILL_SET });
  const decode = splice(doc, { drop: DECODE_DROP, set: DECODE_SET });
  return sentBytes(prefill) + sentBytes(decode);
}

function printLegs(text: string): number {
  const body = JSON.parse(text) as Record<string, unknown>;
  const prefill = JSON.stringify({ ...withoutKeys(body, PREFILL_DROP), ...PREFILL_VALUES });
  const decode = JSON.stringify({ ...withoutKeys(body, DECODE_DROP), ...DECODE_VALUES });
  return sentBytes(prefill) + sentBytes(decode);
}

function withoutKeys(body: Record<string, unknown>, drop: ReadonlySet<string>): Record<string, unknown> {
  const kept = { ...body };
  for (const key of drop) {
    if (key in kept) delete kept[key];
  }
  return kept;
}

const encoder = new TextEncoder();

function sentBytes(leg: string): number {
  return encoder.encode(leg).length;
}

/** Best time of one call, in microseconds: the other cores' noise only ever adds. */
function bestOf(act: (text: string) => number, text: string): number {
  const calls = Math.max(1, Math.round(300_000 / text.length));
  let best = Infinity;
  for (let round = 0; round < (text.length > 1 << 20 ? 12 : 600); round++) {
    const before = performance.now();
    for (let i = 0; i < calls; i++) act(text);
    best = Math.min(best, ((performance.now() - before) * 1000) / calls);
  }
  return best;
}

console.log("body                         bytes   scan µs  +2 splices µs  parse+2 stringify µs   ratio");
for (const [name, text] of Object.entries(BODIES)) {
  const scan = bestOf(scanOnly, text);
  const ours = bestOf(spliceLegs, text);
  const theirs = bestOf(printLegs, text);
  const bytes = sentBytes(text);
  console.log(
    name.padEnd(26) +
      String(bytes).padStart(8) +
      scan.toFixed(2).padStart(10) +
      ours.toFixed(2).padStart(15) +
      theirs.toFixed(2).padStart(22) +
      `${(theirs / ours).toFixed(1)}×`.padStart(8),
  );
}
