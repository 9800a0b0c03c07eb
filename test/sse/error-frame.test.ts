import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Api, type FrameError, streamApis } from "../../src/sse/api.ts";
import { SseFramer } from "../../src/sse/framer.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { sequenceAfter } from "../../src/sse/sequence.ts";
import { StreamState } from "../../src/sse/stream-state.ts";
import { bytesOf } from "./streams.ts";

const error: FrameError = {
  message: "kv lost",
  type: "server_error",
  code: "decode_failed",
  param: null,
  stage: "decode",
};
const apis = Object.keys(streamApis) as Api[];

describe("error frames", () => {
  test("have the bytes of contract section 4", () => {
    const nested =
      'data: {"error":{"message":"kv lost","type":"server_error","code":"decode_failed","param":null,"stage":"decode"}}\n\n';
    for (const api of ["chat", "completions", "generate"] as const) {
      expect(streamApis[api].errorFrame(error, 0)).toBe(nested);
      expect(streamApis[api].afterErrorFrame).toBe("data: [DONE]\n\n");
    }
    expect(streamApis.messages.errorFrame(error, 0)).toBe(
      'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"kv lost"}}\n\n',
    );
    expect(streamApis.responses.errorFrame(error, 4)).toBe(
      'event: error\ndata: {"type":"error","code":"decode_failed","message":"kv lost","param":null,"sequence_number":4,"error":{"message":"kv lost","type":"server_error","code":"decode_failed"}}\n\n',
    );
    expect([streamApis.messages.afterErrorFrame, streamApis.responses.afterErrorFrame]).toEqual(["", ""]);
  });

  test("keep an engine's own type and code", () => {
    const engine = { ...error, type: "overloaded_error", code: 503 };
    expect(streamApis.messages.errorFrame(engine, 0)).toContain('"type":"overloaded_error"');
    expect(streamApis.chat.errorFrame(engine, 0)).toContain('"type":"overloaded_error","code":503');
  });

  test("are one whole event that is read as a failure, never empty, at most 8 KiB, whatever the message", () => {
    const messages = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constantFrom("", " \n", "a\r\n\r\ndata: [DONE]\n\n", "\ud800 half", "日".repeat(9000), "\u0000\u2028"),
    );
    fc.assert(
      fc.property(fc.constantFrom(...apis), messages, (name, message) => {
        const api = streamApis[name];
        const frame = bytesOf(api.errorFrame({ ...error, message }, 1));
        expect(new SseFramer().push(frame)).toBe(frame);
        const event = parseEvent(frame);
        const { failure } = api.read(event, new StreamState());
        expect(failure?.nested).toBe(true);
        const said: string = JSON.parse(event.data!).error.message;
        expect(said.trim()).not.toBe("");
        expect(said.isWellFormed()).toBe(true);
        expect(bytesOf(said).length).toBeLessThanOrEqual(8192);
        if (message.trim() !== "" && message.length < 2000) expect(said).toBe(message.toWellFormed());
      }),
    );
  });

  test("and end marks are read as what they are", () => {
    for (const name of apis) {
      const { endMark, read } = streamApis[name];
      if (name === "responses") expect(endMark).toBe("");
      else expect(read(parseEvent(bytesOf(endMark)), new StreamState()).end).toBe(true);
    }
  });
});

describe("numbering the frame of responses", () => {
  test("goes on after the last sequence number of the block", () => {
    const block =
      'event: a\ndata: {"type":"a","sequence_number":6}\n\ndata: {"sequence_number" : 41, "delta":"\\"sequence_number\\":99"}\n\n';
    expect(sequenceAfter(block, 0)).toBe(42);
  });

  test("falls back where there is none", () => {
    expect(sequenceAfter('data: {"sequence_number":"x"}\n\n', 7)).toBe(7);
    expect(sequenceAfter('data: {"sequence_number":3,"delta":"sequence_number"}\n\n', 7)).toBe(4);
    expect(sequenceAfter("", 2)).toBe(2);
  });
});
