import { streamApis } from "../src/sse/api.ts";
import { SseFramer } from "../src/sse/framer.ts";
import { mentionsUsage } from "../src/sse/json-marks.ts";
import { parseEvent } from "../src/sse/parse-event.ts";
import { eventSpans } from "../src/sse/split.ts";
import { StreamState } from "../src/sse/stream-state.ts";

// What the relay pays per event of a decode stream. `bun bench/sse.ts` prints nanoseconds per call, the best of nine rounds. Each case goes
// through 2,048 different events, so that nothing is answered from a string cache.

const count = 2048;
const encoder = new TextEncoder();
const decoder = new TextDecoder("windows-1252");

function events(make: (at: number) => string): Uint8Array[] {
  return Array.from({ length: count }, (_, at) => encoder.encode(make(at)));
}

function chat(text: string): string {
  return `data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk","created":1764000000,"model":"demo-model","choices":[{"index":0,"delta":{"content":"${text}"},"logprobs":null,"finish_reason":null}]}\n\n`;
}

const streams = {
  chat: events((at) => chat(` tok${at}`)),
  "chat, Chinese": events((at) => chat(`日本${String.fromCharCode(0x4e00 + at)}`)),
  "chat, escapes": events((at) => chat(`\\n${at}\\"\\u00e4`)),
  generate: events(
    (at) =>
      `data: {"text":" tok${at}","output_ids":[${at}],"meta_info":{"id":"0123456789abcdef0123456789abcdef","finish_reason":null,"prompt_tokens":93,"weight_version":"default","completion_tokens":${at},"cached_tokens":0}}\n\n`,
  ),
  responses: events(
    (at) =>
      `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":${at},"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":" tok${at}","logprobs":[]}\n\n`,
  ),
  messages: events(
    (at) =>
      `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" tok${at}"}}\n\n`,
  ),
};

let sink = 0;

function measure<T>(name: string, items: readonly T[], call: (item: T) => unknown): void {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 9; round++) {
    const started = performance.now();
    for (let turn = 0; turn < 20; turn++) {
      for (const item of items) if (call(item)) sink++;
    }
    best = Math.min(best, ((performance.now() - started) * 1e6) / (20 * items.length));
  }
  console.log(`${name.padEnd(52)}${best.toFixed(best < 10 ? 1 : 0).padStart(8)} ns`);
}

const framer = new SseFramer();
measure("framer, a chunk that is whole events", streams.chat, (chunk) => framer.push(chunk));
const halves = streams.chat.flatMap((chunk) => [chunk.slice(0, 100), chunk.slice(100)]);
measure("framer, an event in two chunks, per chunk", halves, (chunk) => framer.push(chunk));
measure("latin1 decode", streams.chat, (chunk) => decoder.decode(chunk).length === 0);

for (const [name, chunks] of Object.entries(streams)) {
  const api = streamApis[name.split(",")[0] as keyof typeof streamApis];
  const blocks = chunks.map((chunk) => decoder.decode(chunk));
  measure(`suspicious, ${name} (${chunks[0]!.length} bytes)`, blocks, api.suspicious);
}
const chatBlocks = streams.chat.map((chunk) => decoder.decode(chunk));
measure("usage search, chat", chatBlocks, mentionsUsage);

// The alternatives to `suspicious` that were measured and not taken.
const marks = /"finish_reason"(?!\s*:\s*null)|"error[":]|"detail"|\[DONE\]|event: ?error|^:|[\n\r]:|\\u00[2-7]/;
measure("  not taken: one regular expression", chatBlocks, (block) => marks.test(block));
const words = ['"error"', '"error:', '"detail"', "[DONE]", "event: error", "event:error", "\n:", "\r:", "\\u00"];
measure("  not taken: a search for each whole mark", chatBlocks, (block) => words.some((word) => block.includes(word)));

measure("all of it: framer, decode, suspicious; chat", streams.chat, (chunk) => {
  const block = framer.push(chunk);
  return block !== undefined && streamApis.chat.suspicious(decoder.decode(block));
});

const large = events((at) => Array.from({ length: 64 }, (_, more) => chat(` t${at}${more}`)).join("")).slice(0, 64);
measure("the same for a block of 64 events", large, (chunk) =>
  streamApis.chat.suspicious(decoder.decode(framer.push(chunk)!)),
);
measure("spans of that block", large, (block) => eventSpans(block).length === 0);
const state = new StreamState();
measure(
  "parse and read one event (only on a hit)",
  streams.chat,
  (chunk) => streamApis.chat.read(parseEvent(chunk), state).end,
);

if (sink < 0) console.log(sink);
