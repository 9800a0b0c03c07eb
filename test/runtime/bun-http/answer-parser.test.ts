import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AnswerParser, parserWorks } from "../../../src/runtime/bun-http/answer-parser.ts";

interface Sent {
  interim: number;
  status: number;
  headers: number;
  framing: "length" | "chunked" | "close";
  body: string;
  chunk: number;
  trailers: boolean;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  interim: fc.nat({ max: 2 }),
  status: fc.constantFrom(200, 201, 400, 429, 500, 503),
  // More than the parser tells at once.
  headers: fc.nat({ max: 80 }),
  framing: fc.constantFrom("length", "chunked", "close"),
  body: fc.string({ maxLength: 300 }),
  chunk: fc.integer({ min: 1, max: 40 }),
  trailers: fc.boolean(),
});

function wire({ interim, status, headers, framing, body, chunk, trailers }: Sent): Buffer {
  const payload = Buffer.from(body);
  let head = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(interim);
  head += `HTTP/1.1 ${status} Whatever\r\n`;
  for (let i = 0; i < headers; i++) head += `X-${i}: value ${i}\r\n`;
  if (framing === "length")
    return Buffer.concat([Buffer.from(`${head}Content-Length: ${payload.length}\r\n\r\n`), payload]);
  if (framing === "close") return Buffer.concat([Buffer.from(`${head}\r\n`), payload]);
  const parts = [Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n`)];
  for (let at = 0; at < payload.length; at += chunk) {
    const piece = payload.subarray(at, at + chunk);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
  }
  parts.push(Buffer.from(trailers ? "0\r\nx-late: 1\r\n\r\n" : "0\r\n\r\n"));
  return Buffer.concat(parts);
}

/** Bytes cut anywhere, read one piece after the other. */
function read(
  parser: AnswerParser,
  bytes: Buffer,
  cuts: readonly number[],
): { body: string; error: Error | undefined } {
  const body: Uint8Array[] = [];
  let error: Error | undefined;
  let from = 0;
  for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    if (to === from) continue;
    error ??= parser.read(bytes.subarray(from, to));
    body.push(...parser.body());
    from = to;
  }
  return { body: Buffer.concat(body).toString(), error };
}

describe("answers", () => {
  test("come through whole however their bytes are cut, one after the other on one connection", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(sent, fc.array(fc.nat())), { minLength: 1, maxLength: 3 }), (answers) => {
        const parser = new AnswerParser();
        for (const [answer, cuts] of answers) {
          parser.next();
          const { body, error } = read(parser, wire(answer), cuts);
          expect([error, body, parser.head?.status]).toEqual([undefined, answer.body, answer.status]);
          for (let i = 0; i < answer.headers; i++) expect(parser.head!.headers.get(`x-${i}`)).toBe(`value ${i}`);
          expect(parser.head!.headers.has("x-late")).toBe(false);
          expect(parser.head!.headers.has("link")).toBe(false);
          if (answer.framing === "close") {
            expect([parser.complete, parser.keepsAlive]).toEqual([false, false]);
            expect([parser.end(), parser.complete]).toEqual([undefined, true]);
            return;
          }
          expect([parser.complete, parser.keepsAlive, parser.overrun]).toEqual([true, true, false]);
        }
      }),
    );
  });

  test("that are cut before their end are never complete", () => {
    fc.assert(
      fc.property(sent, fc.nat(), fc.array(fc.nat()), (answer, at, cuts) => {
        fc.pre(answer.framing !== "close");
        const bytes = wire(answer);
        const parser = new AnswerParser();
        const { error } = read(parser, bytes.subarray(0, at % bytes.length), cuts);
        expect([error, parser.complete]).toEqual([undefined, false]);
        // Nothing at all, or between an interim answer and the real one, is for the connection to judge: there is no head.
        if (parser.head !== undefined) expect(parser.end()).toBeInstanceOf(Error);
        else parser.end();
        expect(parser.complete && parser.head !== undefined).toBe(false);
      }),
    );
  });

  test.each([
    ["a word for a chunk size", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
    ["a negative chunk size", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n"],
    ["a chunk longer than it says", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
    ["a length and chunks", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a length that is no number", "HTTP/1.1 200 OK\r\ncontent-length: one\r\n\r\na"],
    ["no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"],
    ["a head without end", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(300_000)}`],
  ])("with %s are an error", (_, text) => {
    const parser = new AnswerParser();
    expect(parser.read(Buffer.from(text))).toBeInstanceOf(Error);
    expect(parser.complete).toBe(false);
  });

  test.each(["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", "HTTP/1.1 2", "H"])(
    "what comes after the end belongs to nobody: %j",
    (more) => {
      const parser = new AnswerParser();
      parser.read(Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok${more}`));
      expect([String(parser.body()[0]), parser.complete, parser.overrun]).toEqual(["ok", true, true]);
    },
  );

  test.each([
    ["connection: close", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    ["a change of protocol", "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
  ])("after %s the connection carries nothing more", (_, text) => {
    const parser = new AnswerParser();
    parser.read(Buffer.from(text));
    expect([parser.complete, parser.keepsAlive]).toEqual([true, false]);
  });
});

test("this build of Bun has a parser that does what is expected of it", () => {
  expect(parserWorks()).toBe(true);
});
