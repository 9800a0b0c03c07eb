import { expect, test } from "bun:test";
import fc from "fast-check";
import type { AnswerBody } from "../../../src/runtime/socket-http/answer-body.ts";
import { bodyAfter } from "../../../src/runtime/socket-http/body-after.ts";
import { HeaderPairs } from "../../../src/runtime/socket-http/header-pairs.ts";
import { pieces } from "./pieces.ts";

function body(status: number, ...pairs: string[]): AnswerBody {
  return bodyAfter({ status, headers: new HeaderPairs(pairs) });
}

function push(to: AnswerBody, all: readonly Uint8Array[]): string {
  return Buffer.concat(all.flatMap((piece) => to.push(piece, 0) ?? [])).toString();
}

test("a body whose length is known ends there, however it is cut, and what follows belongs to nobody", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 3_000 }), fc.string({ maxLength: 3 }), fc.array(fc.nat()), (own, more, cuts) => {
      const bytes = Buffer.from(own + more);
      const sized = body(200, "Content-Length", String(Buffer.byteLength(own)));
      expect(push(sized, pieces(bytes, cuts))).toBe(own);
      expect([sized.complete, sized.overrun, sized.end()]).toEqual([true, more !== "", undefined]);
    }),
  );
});

test("a body that is short of its length is never complete", () => {
  const sized = body(200, "content-length", "3");
  expect(push(sized, [Buffer.from("ab")])).toBe("ab");
  expect([sized.complete, sized.end()]).toEqual([false, expect.any(Error)]);
});

test("a body without a length ends with its connection", () => {
  const open = body(200, "content-type", "text/plain");
  expect(push(open, pieces(Buffer.from("all of it"), [3]))).toBe("all of it");
  expect(open.complete).toBe(false);
  expect([open.end(), open.complete]).toEqual([undefined, true]);
});

test.each([
  ["chunked", "0\r\n\r\n"],
  ["Chunked", "0\r\n\r\n"],
  ["gzip, chunked", "0\r\n\r\n"],
  ["gzip,\tchunked ", "0\r\n\r\n"],
])("transfer-encoding %p is in chunks", (coding, end) => {
  const chunked = body(200, "Transfer-Encoding", coding);
  chunked.push(Buffer.from(end), 0);
  expect(chunked.complete).toBe(true);
});

test.each(["gzip", "chunked, gzip", "xchunked", "identity"])(
  "transfer-encoding %p ends with its connection",
  (coding) => {
    const open = body(200, "transfer-encoding", coding);
    expect(push(open, [Buffer.from("0\r\n\r\n")])).toBe("0\r\n\r\n");
    expect(open.complete).toBe(false);
  },
);

test.each([101, 204, 304])("status %p has no body, whatever it says", (status) => {
  const none = body(status, "content-length", "5");
  expect([none.complete, none.push(new Uint8Array(), 0), none.overrun]).toEqual([true, undefined, false]);
});
