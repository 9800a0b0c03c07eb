import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { repliesFor } from "../../bench/stand/engine/replies.ts";
import { lacks, markIn, RequestReader, wantsStream } from "../../bench/stand/engine/request.ts";
import { ResponseReader } from "../../bench/stand/load/response.ts";
import { markOf } from "../../bench/stand/protocol.ts";

const SHAPE = { tokens: 3, itlMs: 0, chunkBytes: 12 };

/** Any way to cut bytes into pieces. */
function cuts(length: number): fc.Arbitrary<number[]> {
  return fc
    .array(fc.integer({ min: 1, max: length - 1 }), { maxLength: 12 })
    .map((at) => [...new Set(at)].sort((a, b) => a - b));
}

function pieces(bytes: Buffer, at: readonly number[]): Buffer[] {
  return [...at, bytes.length].map((end, index) => bytes.subarray(index === 0 ? 0 : at[index - 1], end));
}

function readResponse(parts: readonly Buffer[]): { code: number; text: string; wholes: boolean[] } {
  const seen = { code: 0, text: "", wholes: [] as boolean[] };
  const reader = new ResponseReader({
    status(code) {
      seen.code = code;
    },
    payload(bytes, from, to) {
      seen.text += bytes.toString("latin1", from, to);
    },
    whole(keep) {
      seen.wholes.push(keep);
    },
  });
  for (const part of parts) reader.take(part);
  return seen;
}

describe("the load generator's reader", () => {
  test("reads a stream of the bench's engines the same however it is cut", () => {
    const { opening, token, closing } = repliesFor(SHAPE, "sglang", "decode", 1);
    const bytes = Buffer.concat([opening, token, token, closing]);
    const uncut = readResponse([bytes]);
    expect(uncut.code).toBe(200);
    expect(uncut.text.match(/\n\n/g)).toHaveLength(SHAPE.tokens + 3);
    expect(uncut.text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(uncut.wholes).toEqual([true]);
    fc.assert(fc.property(cuts(bytes.length), (at) => expect(readResponse(pieces(bytes, at))).toEqual(uncut)));
  });

  test("a stream without its last chunk is not whole", () => {
    const { opening, token } = repliesFor(SHAPE, "sglang", "decode", 1);
    expect(readResponse([opening, token]).wholes).toEqual([]);
  });

  test("a response that ends its connection says so", () => {
    const bytes = Buffer.from("HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
    expect(readResponse([bytes])).toEqual({ code: 503, text: "no", wholes: [false] });
  });
});

describe("the engines' reader", () => {
  const body = `{"messages":[{"content":"${markOf("f", 42)} \\"stream\\": true"}],"stream": true,"bootstrap_room":7,"bootstrap_host":"h"}`;
  const byLength = Buffer.from(`POST /v1/chat/completions HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  const inChunks = Buffer.from(
    `POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`,
  );

  test("finds the same request with a length and in chunks, however it is cut", () => {
    for (const bytes of [byLength, inChunks]) {
      fc.assert(
        fc.property(cuts(bytes.length), (at) => {
          const reader = new RequestReader();
          const requests = pieces(bytes, at).map((part) => reader.take(part));
          expect(requests.slice(0, -1).every((request) => request === undefined)).toBe(true);
          expect(requests.at(-1)?.path).toBe("/v1/chat/completions");
          expect(requests.at(-1)?.body.toString()).toBe(body);
        }),
      );
    }
  });

  test("reads the mark and the members it goes by", () => {
    const bytes = Buffer.from(body);
    expect(markIn(bytes)).toEqual({ kind: "f", number: 42 });
    expect(wantsStream(bytes)).toBe(true);
    expect(wantsStream(Buffer.from('{"messages":"\\"stream\\":true"}'))).toBe(false);
  });

  test("a leg without its rendezvous is refused, so that no router is measured that leaves it out", () => {
    expect(lacks(Buffer.from(body), "sglang", "decode")).toBeUndefined();
    expect(lacks(Buffer.from("{}"), "sglang", "decode")).toContain("bootstrap_room");
    expect(lacks(Buffer.from('{"kv_transfer_params":{"do_remote_decode":true}}'), "vllm", "prefill")).toBeUndefined();
    expect(lacks(Buffer.from('{"kv_transfer_params":{"do_remote_prefill":true}}'), "vllm", "decode")).toContain(
      "engine id",
    );
  });
});
