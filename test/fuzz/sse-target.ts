import { createParser } from "eventsource-parser";
import { streamApis } from "../../src/sse/api.ts";
import { SseFramer } from "../../src/sse/framer.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { eventSpans } from "../../src/sse/split.ts";
import { StreamState } from "../../src/sse/stream-state.ts";
import { answerEvents, apis, errorEvent } from "../faults/streams.ts";
import { chunksOf, join, texts } from "./mutate.ts";
import { check, type Target } from "./target.ts";

const latin1 = new TextDecoder("latin1");
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export const streamSeeds: readonly Uint8Array[] = [
  ...apis.map((api) => Buffer.concat(answerEvents(api).map(({ bytes }) => bytes))),
  ...apis.map((api) =>
    Buffer.concat([
      ...answerEvents(api)
        .slice(0, 4)
        .map(({ bytes }) => bytes),
      errorEvent(api),
      Buffer.from("data: [DONE]\n\n"),
    ]),
  ),
];

export const streamWords: readonly Uint8Array[] = texts(
  ...[
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\r\n\r\n",
    "\r\r",
    ":",
    "data:",
    "data: ",
    "event: error",
    "event:",
    "id: 1\n",
    "retry: 5\n",
  ],
  ...[
    "data: [DONE]\n\n",
    "[DONE]",
    ": ping\n\n",
    '"finish_reason":"stop"',
    '"finish_reason": null',
    '"finish_reason":"abort"',
  ],
  ...[
    '"error":',
    '{"error":{"message":"x"}}',
    '"object":"error"',
    '"stop_reason":"end_turn"',
    "message_stop",
    "response.failed",
  ],
  ...[
    "\ufeff",
    "\u0000",
    "\u2028",
    '"usage":{"prompt_tokens":1}',
    '"index":1',
    '"choices":[]',
    "{",
    "}",
    '"',
    "\\",
    "é",
    "\\u0066",
  ],
);

/**
 * The framer keeps every byte and cuts where a client's parser would; what the search passes as unsuspicious holds nothing that the
 * reader would have acted on.
 */
export const sseTarget: Target = {
  name: "sse",
  seeds: streamSeeds,
  words: streamWords,
  run(input, random) {
    const framer = new SseFramer();
    const blocks: Uint8Array[] = [];
    for (const chunk of chunksOf(random, input)) {
      const block = framer.push(chunk);
      if (block !== undefined) blocks.push(block);
    }
    const rest = framer.flush() ?? new Uint8Array(0);
    check(Buffer.compare(join(...blocks, rest), input) === 0, "bytes were lost or changed");

    const whole = join(...blocks);
    // A byte order mark is taken off every event here, by a client only off the first: not worth a state, engines send none.
    if (utf8.decode(whole).lastIndexOf("\ufeff") > 0) return;
    const found = blocks.flatMap((block) =>
      eventSpans(block).flatMap(({ start, end }) => readData(block.subarray(start, end))),
    );
    const wanted: string[] = [];
    const parser = createParser({ onEvent: ({ data }) => void wanted.push(data) });
    parser.feed(utf8.decode(whole).replace(/^\ufeff/, ""));
    // A CR at the very end is read only once something follows it.
    parser.feed("\n");
    check(
      JSON.stringify(found) === JSON.stringify(wanted),
      `events ${JSON.stringify(found)}, a client reads ${JSON.stringify(wanted)}`,
    );

    for (const api of apis) {
      const { read, suspicious } = streamApis[api];
      const state = new StreamState(1);
      for (const block of blocks) {
        let acted = false;
        for (const { start, end } of eventSpans(block)) {
          const meaning = read(parseEvent(block.subarray(start, end)), state);
          acted ||= meaning.finishes || meaning.end || meaning.failure !== undefined;
        }
        check(
          !acted || suspicious(latin1.decode(block)),
          `${api}: a mark passed unseen in ${JSON.stringify(latin1.decode(block))}`,
        );
      }
    }
  },
};

function readData(bytes: Uint8Array): string[] {
  const { data } = parseEvent(bytes);
  return data === undefined ? [] : [data];
}
