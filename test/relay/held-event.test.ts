import { expect, test } from "bun:test";
import { withData } from "../../src/relay/held-event.ts";
import { parseEvent } from "../../src/sse/parse-event.ts";

const meaning = { answers: true, finishes: false, end: false, usage: false, failure: undefined };

function edited(text: string, data: string): string {
  const bytes = new TextEncoder().encode(text);
  return new TextDecoder().decode(withData({ bytes, parsed: parseEvent(bytes), meaning }, data));
}

test("only the data changes: field order, line ends, names and blanks stay", () => {
  expect(edited('id: 7\r\nevent: message\r\ndata:{"a":1}\r\nretry: 5\r\n\r\n', '{"a":2}')).toBe(
    'id: 7\r\nevent: message\r\ndata:{"a":2}\r\nretry: 5\r\n\r\n',
  );
});

test("what stands before the data and is the same text stays", () => {
  expect(edited('id: {"a":1}\ndata: {"a":1}\n\n', '{"a":2}')).toBe('id: {"a":1}\ndata: {"a":2}\n\n');
});

test("data over several lines becomes one line, which readers take for the same", () => {
  const text = edited('event: x\ndata: {"a":\ndata: 1}\n\n', '{"a":\n2}');
  expect(parseEvent(new TextEncoder().encode(text))).toMatchObject({ type: "x" });
  expect(JSON.parse(parseEvent(new TextEncoder().encode(text)).data!)).toEqual({ a: 2 });
});
