import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Api, streamApis } from "../../src/sse/api.ts";
import { mentionsUsage } from "../../src/sse/json-marks.ts";
import { outline } from "../../src/sse/outline.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { eventSpans } from "../../src/sse/split.ts";
import { StreamState } from "../../src/sse/stream-state.ts";
import { bytesOf, latin1Of } from "./streams.ts";
import { eventsOf, valuesByApi } from "./values.ts";

const apis: Api[] = ["chat", "completions", "generate", "responses", "messages"];
/** Nothing of its own, but long enough that the block it ends gets an outline. */
const PADDING = `data: {"x":"${"t".repeat(4_096)}"}\n\n`;
const prefixes = fc.constantFrom("", "\uFEFF", "\n", 'data: {"choices":[]}\n\n', ": c\n\n", "event: x\rdata: {}\r\r");

describe("suspicious", () => {
  for (const name of apis) {
    test(`${name}: never false for a block that holds a finish, an end, a failure or a comment, however it is written`, () => {
      const api = streamApis[name];
      let marked = 0;
      let plain = 0;
      fc.assert(
        fc.property(
          prefixes,
          fc.array(eventsOf(valuesByApi[name]), { minLength: 1, maxLength: 2 }),
          (prefix, events) => {
            const block = bytesOf(prefix + events.join(""));
            const latin1 = latin1Of(block);
            const state = new StreamState(3);
            let mark = false;
            let usage = false;
            for (const { start, end } of eventSpans(block)) {
              const event = parseEvent(block.subarray(start, end));
              const meaning = api.read(event, state);
              usage ||= meaning.usage && name !== "generate";
              mark ||= event.comment || meaning.end || meaning.failure !== undefined || state.open < 3;
            }
            if (mark) marked++;
            else plain++;
            if (mark) expect(api.suspicious(latin1)).toBe(true);
            if (mark) expect(api.suspicious(outline(bytesOf(prefix + events.join("") + PADDING)))).toBe(true);
            if (usage) expect(mentionsUsage(latin1)).toBe(true);
          },
        ),
        { numRuns: 1500 },
      );
      // The generator must make both kinds, or the promise was not tested.
      expect(marked).toBeGreaterThan(200);
      expect(plain).toBeGreaterThan(50);
    });
  }

  test.each([
    'data: {"choices":[]}\r\r: c\n\n',
    'data: {"choices":[]}\r\rdata: [DONE]\n\n',
    'data: {"choices":[]}\revent: error\n\n',
    'data: {"choices":[]}\n:',
    "\uFEFF: c\n\n",
    "\uFEFF:\r\r",
  ])("a second line is seen even where the block looks like one line of JSON: %j", (text) => {
    for (const name of apis) expect(streamApis[name].suspicious(latin1Of(bytesOf(text)))).toBe(true);
  });

  const quiet: [Api, string][] = [
    [
      "chat",
      'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":null}]}\n\n',
    ],
    [
      "chat",
      'data: {"choices": [{"index": 0, "delta": {"content": "a \\"finish_reason\\": \\"stop\\" \\u00e4\\u4e2d"}, "finish_reason": null}]}\r\n\r\n',
    ],
    [
      "chat",
      'data: {"choices":[{"delta":{"content":"current error until"},"finish_reason":null}],"error":null}\n\ndata:{"choices":[]}\n\n',
    ],
    [
      "completions",
      'data: {"object":"text_completion","choices":[{"index":0,"text":"日本","finish_reason":null,"stop_reason":null}],"usage":null}\n\n',
    ],
    [
      "generate",
      'data: {"text":"a\\nb","output_ids":[1],"meta_info":{"id":"x","finish_reason":null,"prompt_tokens":3}}\n\n',
    ],
    [
      "responses",
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":4,"delta":"tok"}\n\n',
    ],
    [
      "responses",
      'event: response.created\ndata: {"type":"response.created","response":{"status":"in_progress","error":null}}\n\n',
    ],
    [
      "messages",
      'event: message_start\ndata: {"type":"message_start","message":{"stop_reason":null,"content":[]}}\n\n',
    ],
    [
      "messages",
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n',
    ],
  ];
  test.each(quiet)("%s: ordinary events are not parsed: %s", (name, text) => {
    expect(streamApis[name].suspicious(latin1Of(bytesOf(text)))).toBe(false);
  });
});
