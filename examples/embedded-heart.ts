// The heart without a server: decode is silent for ever, prefill fails after the hand-off, and the client hears of it at once.
import { consumePrefillStream, type PrefillOutput } from "prefill-router/prefill";

const background = { run: (drain: Promise<unknown>) => void drain };
const clock = { now: Date.now, after: (ms: number, fn: () => void) => clearTimeout.bind(null, setTimeout(fn, ms)) };
const params = { bootstrap_host: "10.0.0.7", bootstrap_port: 8998, bootstrap_room: 7 };
const handoff: PrefillOutput = { data: { disaggregatedParams: { value: params, text: JSON.stringify(params) } } };
const { readable: prefill, writable } = new TransformStream<PrefillOutput, PrefillOutput>();
const engine = writable.getWriter();
void engine.write(handoff);

const answer = await consumePrefillStream(prefill, { background, clock, limits: { settleMs: 500 } });
console.log(answer.kind);

const rules = { isTerminal: (s: string) => s === "[DONE]", failure: () => false, errorItem: (e: Error) => e.message };
const silent = async () => new ReadableStream<string>();
const stream = await answer.completion?.forwardDecode(silent, (reason) => console.log(`cancelled: ${reason}`), rules);
void engine.write({ error: "KV transfer timed out" });
for await (const item of stream ?? []) console.log(item);
