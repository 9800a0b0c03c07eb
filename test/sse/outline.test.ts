import { describe, expect, test } from "bun:test";
import { eventOutlines, outline } from "../../src/sse/outline.ts";

// That no mark is missed in an outline is tested where marks are: suspicious.test.ts.

const encoder = new TextEncoder();
const LONG = "t".repeat(8_192);

describe("outline of a block", () => {
  test("a large event is its keys and the beginnings of its long strings", () => {
    const event = `data: {"choices":[{"index":0,"delta":{"content":"${LONG}"},"finish_reason":"stop"}]}\n\n`;
    expect(outline(encoder.encode(event))).toBe(event.replace(LONG, "t".repeat(16)));
  });

  test("so are several, and escaped quotation marks end no string", () => {
    const content = `say \\"yes\\" \\\\${LONG}\\"\\\\`;
    const events = `data: {"a":"${content}","b":1}\n\n`.repeat(3);
    expect(outline(encoder.encode(events))).toBe(events.replaceAll(content, content.slice(0, 16)));
  });

  test("the events of a block have outlines of their own, be they large or small", () => {
    const large = `data: {"content":"${LONG}"}\n\n`;
    const small = 'data: {"content":"tok"}\n\n';
    for (const events of [[small, large, small], Array<string>(40).fill(small)]) {
      const block = encoder.encode(events.join(""));
      const outlineOf = eventOutlines(block, events.length);
      let start = 0;
      for (const event of events) {
        expect(outlineOf(start, start + event.length)).toBe(event.replace(LONG, LONG.slice(0, 16)));
        start += event.length;
      }
    }
  });

  test("a small block is itself, a character a byte", () => {
    expect(outline(encoder.encode(`data: {"content":"${"t".repeat(1_000)}ü"}\n\n`))).toHaveLength(1_024);
  });

  test.each([
    ["a comment with one quotation mark", `: it's "\n\ndata: {"content":"${LONG}"}\n\n`],
    ["lines that end with CR", `data: {"content":"${LONG}"}\r\n\r\n`],
    ["many escaped quotation marks", `data: {"content":"${'\\"'.repeat(4_096)}"}\n\n`],
    ["a string that does not end", `data: {"content":"${LONG}\n\n`],
  ])("%s: the whole text", (_, event) => {
    expect(outline(encoder.encode(event))).toBe(event);
  });
});
