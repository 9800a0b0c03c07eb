import { expect, test } from "bun:test";
import fc from "fast-check";
import { targetOf } from "../../../src/runtime/bun-http/origin.ts";
import { requestText, restOf } from "../../../src/runtime/bun-http/request-text.ts";

const target = targetOf("http://p1:8000/v1/chat/completions")!;

function bytes(headers: Record<string, string>, body: string, fresh = false): Buffer {
  const { text, bytes: length } = requestText(target, { headers, body, fresh, connectMs: 0 });
  const sent = Buffer.from(text as string);
  expect(sent.length).toBe(length);
  return sent;
}

test("one request, every byte of it", () => {
  expect(bytes({ "content-type": "application/json", "x-request-id": "ab" }, '{"a":1}').toString()).toBe(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: p1:8000\r\nconnection: keep-alive\r\ncontent-type: application/json\r\nx-request-id: ab\r\ncontent-length: 7\r\n\r\n{"a":1}',
  );
  expect(bytes({}, "", true).toString()).toContain("\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
});

test("the body is UTF-8 and its length is that of its bytes, whatever the headers are", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom("ascii", "gr\xfc\xdfe", "del\x7f", "\x01"),
      (body, value) => {
        const sent = bytes({ "x-value": value }, body);
        const at = sent.indexOf("\r\n\r\n");
        const head = sent.toString("latin1", 0, at);
        expect(sent.subarray(at + 4)).toEqual(Buffer.from(body));
        expect(head).toContain(`\r\nx-value: ${value}`);
        expect(Number(/content-length: (\d+)$/.exec(head)![1])).toBe(Buffer.byteLength(body));
      },
    ),
  );
});

test("what is left, wherever the socket stops", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom("ascii", "gr\xfc"),
      fc.array(fc.nat()),
      (body, value, stops) => {
        let rest = requestText(target, { headers: { "x-value": value }, body, fresh: false, connectMs: 0 });
        const whole = Buffer.from(rest.text as string);
        let sent = 0;
        for (const stop of stops) {
          const taken = stop % (rest.bytes + 1);
          rest = restOf(rest, taken);
          sent += taken;
          expect(Buffer.from(rest.text as string)).toEqual(whole.subarray(sent));
          expect(rest.bytes).toBe(whole.length - sent);
        }
      },
    ),
  );
});

test.each(["a\r\nx-more: 1", "a\nb", "a\0b", "Ω"])(
  "a header value that would be another header, or no bytes, is not sent: %j",
  (value) => {
    expect(() => bytes({ "x-value": value }, "")).toThrow(TypeError);
  },
);
