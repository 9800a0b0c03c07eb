import { describe, expect, test } from "bun:test";
import { parseEvent } from "../../src/sse/parse-event.ts";
import { bytesOf } from "./streams.ts";

function parse(text: string) {
  return parseEvent(bytesOf(text));
}

describe("parsing one event", () => {
  test.each([
    ["a data line", "data: x\n\n", "message", "x"],
    ["no space after the colon", "data:x\n\n", "message", "x"],
    ["only one space is taken off", "data:  x\n\n", "message", " x"],
    ["several data lines", "data: {\r\ndata: }\r\n\r\n", "message", "{\n}"],
    ["an event field, after the data", "data: x\revent: error\r\r", "error", "x"],
    ["id, retry and unknown fields", "id: 7\nretry: 1000\nfoo: bar\ndata: x\n\n", "message", "x"],
    ["a BOM at the start", "\uFEFFdata: x\n\n", "message", "x"],
    ["only one BOM", "\uFEFFdata: \uFEFFx\n\n", "message", "\uFEFFx"],
    ["blank lines before it", "\n\r\ndata: x\n\n", "message", "x"],
    ["blank lines after it", "data: x\n\n\n", "message", "x"],
    ["a comment in front", ": c\ndata: x\n\n", "message", "x"],
    ["an empty data line", "data\n\n", "message", ""],
    ["characters of four bytes", "data: 👩‍👩‍👧\n\n", "message", "👩‍👩‍👧"],
    ["the end of the body instead of a blank line", "data: [DONE]", "message", "[DONE]"],
    ["the same after its line end", "data: x\nevent: e\r", "e", "x"],
  ])("%s", (_, text, type, data) => {
    expect(parse(text)).toEqual({ type, data, comment: false });
  });

  test("comments alone are a comment and no data", () => {
    expect(parse(": ping - 2\n:\n\n")).toEqual({ type: "message", data: undefined, comment: true });
  });

  test("an event field without data is not dispatched, so it names nothing", () => {
    expect(parse("event: error\n\n")).toEqual({ type: "message", data: undefined, comment: false });
  });

  test("blank lines alone are nothing", () => {
    expect(parse("\n\r\n")).toEqual({ type: "message", data: undefined, comment: false });
  });
});
