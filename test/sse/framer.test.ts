import { describe, expect, test } from "bun:test";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { SseFramer } from "../../src/sse/framer.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { eventSpans } from "../../src/sse/split.ts";
import { boundaries, bytesOf, cut, cutStreams, joined } from "./streams.ts";

function text(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

describe("framer", () => {
  test("whatever the cuts: bytes are kept, blocks end where events end, and nothing whole is held back", () => {
    fc.assert(
      fc.property(cutStreams, ([bytes, cuts]) => {
        const edges = boundaries(bytes);
        const framer = new SseFramer();
        const out: Uint8Array[] = [];
        let taken = 0;
        for (const chunk of cut(bytes, cuts)) {
          const block = framer.push(chunk);
          taken += chunk.length;
          if (block !== undefined) {
            expect(block.length).toBeGreaterThan(0);
            out.push(block);
          }
          const released = joined(out).length;
          expect(released + framer.pending).toBe(taken);
          const whole = Math.max(...[...edges].filter((edge) => edge <= taken));
          expect(released).toBe(whole);
          expect(edges.has(released)).toBe(true);
        }
        const rest = framer.flush();
        if (rest !== undefined) out.push(rest);
        expect(joined(out)).toEqual(bytes);
        expect(framer.pending).toBe(0);
        expect(framer.flush()).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  test("whatever the cuts: the events are those a client reads from the uncut stream", () => {
    fc.assert(
      fc.property(cutStreams, ([bytes, cuts]) => {
        const wanted: { type: string; data: string }[] = [];
        const parser = createParser({
          onEvent(event) {
            wanted.push({ type: event.event ?? "message", data: event.data });
          },
        });
        const last = Math.max(...boundaries(bytes));
        parser.feed(text(bytes.subarray(0, last)) ?? "");
        parser.feed("\n"); // a CR at the very end is only read once something follows it
        const framer = new SseFramer();
        const found: typeof wanted = [];
        for (const chunk of cut(bytes, cuts)) {
          const block = framer.push(chunk) ?? new Uint8Array(0);
          for (const { start, end } of eventSpans(block)) {
            const { type, data } = parseEvent(block.subarray(start, end));
            if (data !== undefined) found.push({ type, data });
          }
        }
        expect(found).toEqual(wanted);
      }),
      { numRuns: 500 },
    );
  });

  test("a chunk that ends an event, with nothing held, comes back as the very same object", () => {
    const framer = new SseFramer();
    for (const end of ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\n\r", "\r\n\r"]) {
      const chunk = bytesOf(`data: x${end}`);
      expect(framer.push(chunk)).toBe(chunk);
    }
  });

  test("the front of a chunk is a view of it, its unfinished rest is held and joined with what follows", () => {
    const framer = new SseFramer();
    const chunk = bytesOf("data: 1\n\ndata: 2");
    const front = framer.push(chunk)!;
    expect(front.buffer).toBe(chunk.buffer);
    expect(text(front)).toBe("data: 1\n\n");
    expect(framer.pending).toBe(7);
    expect(framer.push(bytesOf("\n"))).toBeUndefined();
    expect(text(framer.push(bytesOf("\ndata: 3\n\ndata")))).toBe("data: 2\n\ndata: 3\n\n");
    expect(framer.pending).toBe(4);
    expect(text(framer.flush())).toBe("data");
  });

  test("CR CR ends an event at once, and the LF that follows goes to the front of the next block", () => {
    const framer = new SseFramer();
    expect(text(framer.push(bytesOf("data: 1\r\r")))).toBe("data: 1\r\r");
    expect(framer.pending).toBe(0);
    expect(text(framer.push(bytesOf("\ndata: 2\n\n")))).toBe("\ndata: 2\n\n");
  });

  test("a CR cut from its LF is no blank line", () => {
    const framer = new SseFramer();
    expect(framer.push(bytesOf("data: 1\r"))).toBeUndefined();
    expect(framer.push(bytesOf("\n"))).toBeUndefined();
    expect(framer.push(bytesOf("data: 2\r\n"))).toBeUndefined();
    expect(text(framer.push(bytesOf("\r")))).toBe("data: 1\r\ndata: 2\r\n\r");
    expect(text(framer.push(bytesOf("\n")))).toBe("\n");
  });

  test("a comment line without its blank line stays in front of the event after it", () => {
    const framer = new SseFramer();
    expect(framer.push(bytesOf(":\n"))).toBeUndefined();
    expect(text(framer.push(bytesOf("data: 1\n\n")))).toBe(":\ndata: 1\n\n");
  });

  test("blocks that were given out do not change when more comes", () => {
    const framer = new SseFramer();
    for (const piece of ["data: ", "0123456789", "abc"]) framer.push(bytesOf(piece));
    const block = framer.push(bytesOf("\n\nda"))!;
    const before = text(block);
    for (const piece of ["ta: ", "zzzzzzzzzzzzzzzzz", "\n\n"]) framer.push(bytesOf(piece));
    expect(text(block)).toBe(before);
  });

  test("an event of 8 MiB in pieces of 64 bytes is joined in linear time", () => {
    const size = 8 << 20;
    const bytes = new Uint8Array(size).fill(120);
    bytes.set(bytesOf("\n\n"), size - 2);
    const framer = new SseFramer();
    const started = performance.now();
    let block: Uint8Array | undefined;
    for (let at = 0; at < size; at += 64) {
      expect(block).toBeUndefined();
      block = framer.push(bytes.subarray(at, at + 64));
    }
    // Joining at each piece would copy half a terabyte: minutes.
    expect(performance.now() - started).toBeLessThan(5000);
    expect(block?.length).toBe(size);
    expect(Buffer.compare(block!, bytes)).toBe(0);
  });

  test("an unfinished event of 4 MiB full of short lines is searched in linear time", () => {
    const line = bytesOf("data: x\r\n".repeat(1024));
    const framer = new SseFramer();
    const started = performance.now();
    for (let piece = 0; piece < 455; piece++) expect(framer.push(line)).toBeUndefined();
    expect(framer.push(bytesOf("\r\n"))?.length).toBe(455 * line.length + 2);
    expect(performance.now() - started).toBeLessThan(5000);
  });
});
