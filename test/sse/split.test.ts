import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { eventSpans } from "../../src/sse/split.ts";
import { boundaries, bytesOf, streams } from "./streams.ts";

function parts(text: string): string[] {
  const bytes = bytesOf(text);
  return eventSpans(bytes).map(({ start, end }) => new TextDecoder().decode(bytes.subarray(start, end)));
}

describe("event spans", () => {
  test("lie end to end, cover every byte, and each but the last ends with its event", () => {
    fc.assert(
      fc.property(streams, (bytes) => {
        const edges = boundaries(bytes);
        let at = 0;
        for (const { start, end } of eventSpans(bytes)) {
          expect(start).toBe(at);
          expect(end).toBeGreaterThan(start);
          if (end < bytes.length) expect(edges.has(end)).toBe(true);
          at = end;
        }
        expect(at).toBe(bytes.length);
      }),
      { numRuns: 500 },
    );
  });

  test("a block of several events falls into them", () => {
    expect(parts("data: 1\n\ndata: 2\r\n\r\n: c\r\rdata: 3\n\n")).toEqual([
      "data: 1\n\n",
      "data: 2\r\n\r\n",
      ": c\r\r",
      "data: 3\n\n",
    ]);
  });

  test("blank lines too many go to the event after them, at the end of the block to the one before", () => {
    expect(parts("\n\ndata: 1\n\n\ndata: 2\n\n\r\n\n")).toEqual(["\n\ndata: 1\n\n", "\ndata: 2\n\n\r\n\n"]);
    expect(parts("\n\r\n")).toEqual(["\n\r\n"]);
  });

  test("a rest without its blank line is the last event", () => {
    expect(parts("data: 1\n\ndata: [DONE]")).toEqual(["data: 1\n\n", "data: [DONE]"]);
    expect(parts("data: 1\n\n\ndata: 2\n")).toEqual(["data: 1\n\n", "\ndata: 2\n"]);
  });

  test("no bytes, no events", () => {
    expect(eventSpans(new Uint8Array(0))).toEqual([]);
  });
});
