import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Pieces } from "../../../src/json/pieces.ts";
import { targetOf } from "../../../src/runtime/socket-http/origin.ts";
import { requestText, restOf } from "../../../src/runtime/socket-http/request-text.ts";

const target = targetOf("http://p1:8000/v1/chat/completions")!;

function bytes(headers: Record<string, string>, body: string, fresh = false, atOnce = false): Buffer {
  const { text, bytes: length } = requestText(
    target,
    { headers, body: new Pieces([body]), fresh, connectMs: 0 },
    atOnce,
  );
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

describe("requests that are written at once", () => {
  const long = fc
    .tuple(fc.constantFrom("a", "ü", "語", "😀", "\ud83d", '\\n"'), fc.integer({ min: 0, max: 20_000 }))
    .map(([text, times]) => text.repeat(times));

  test("are what they are otherwise, one after the other, with the same body or another", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(long, fc.constantFrom("a", "gr\xfc")), { maxLength: 4 }), (requests) => {
        for (const [body, value] of requests) {
          const headers = { "x-value": value };
          const slow = requestText(
            target,
            { headers, body: new Pieces([body]), fresh: false, connectMs: 0 },
            false,
          ).text;
          // Its text has one byte for each character of the head.
          const whole = typeof slow === "string" ? Buffer.from(slow) : slow;
          for (let leg = 0; leg < 2; leg++) expect(bytes(headers, body, false, true).equals(whole)).toBe(true);
        }
      }),
    );
  });

  test("have their body's pieces one behind the other", () => {
    fc.assert(
      fc.property(fc.array(long, { maxLength: 4 }), (parts) => {
        const { text } = requestText(
          target,
          { headers: {}, body: new Pieces(parts), fresh: false, connectMs: 0 },
          true,
        );
        const sent = Buffer.from(text as Buffer);
        const length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
        expect(sent.toString("latin1")).toContain(`\r\ncontent-length: ${length}\r\n\r\n`);
        expect(sent.subarray(sent.length - length).equals(Buffer.concat(parts.map((part) => Buffer.from(part))))).toBe(
          true,
        );
      }),
    );
  });

  test("leave a rest that stays when the next one is put together", () => {
    fc.assert(
      fc.property(long, fc.nat(), (body, stop) => {
        const request = requestText(
          target,
          { headers: {}, body: new Pieces([body]), fresh: false, connectMs: 0 },
          true,
        );
        const whole = Buffer.from(request.text as Buffer);
        const taken = stop % whole.length;
        const rest = restOf(request, taken);
        bytes({ "x-other": "1" }, "z".repeat(30_000), false, true);
        expect((rest.text as Buffer).equals(whole.subarray(taken))).toBe(true);
        expect(rest.bytes).toBe(whole.length - taken);
      }),
    );
  });

  test("with a head beyond all measure, or a body, are put together otherwise", () => {
    const head = bytes({ "x-long": "y".repeat(20_000) }, "z".repeat(9_000), false, true);
    expect(head.indexOf("\r\n\r\n") + 4).toBe(head.length - 9_000);
    const { fleeting } = requestText(
      target,
      { headers: {}, body: new Pieces(["z".repeat(300_000)]), fresh: false, connectMs: 0 },
      true,
    );
    expect(fleeting).toBeUndefined();
  });
});

test("what is left, wherever the socket stops", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom("ascii", "gr\xfc"),
      fc.array(fc.nat()),
      (body, value, stops) => {
        let rest = requestText(
          target,
          { headers: { "x-value": value }, body: new Pieces([body]), fresh: false, connectMs: 0 },
          false,
        );
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
