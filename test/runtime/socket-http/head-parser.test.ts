import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { HeadParser, parserWorks } from "../../../src/runtime/socket-http/head-parser.ts";
import { pieces } from "./pieces.ts";

interface Sent {
  interim: number;
  status: number;
  headers: number;
  body: string;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  interim: fc.nat({ max: 2 }),
  status: fc.constantFrom(200, 201, 400, 429, 500, 503),
  // More than the parser tells at once.
  headers: fc.nat({ max: 80 }),
  body: fc.constantFrom("", "x", "HTTP/1.1 200 OK\r\n\r\n", "\r\n\r\n"),
});

function headOf({ interim, status, headers }: Sent): string {
  let head = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(interim);
  head += `HTTP/1.1 ${status} Whatever\r\n`;
  for (let i = 0; i < headers; i++) head += `X-${i}: value ${i}\r\n`;
  return `${head}Content-Length: 20\r\n\r\n`;
}

describe("heads", () => {
  test("come through whole however their bytes are cut, and tell where the body begins", () => {
    fc.assert(
      fc.property(sent, fc.array(fc.nat()), (answer, cuts) => {
        const parser = HeadParser.take();
        const head = headOf(answer);
        let read = 0;
        for (const piece of pieces(Buffer.from(head + answer.body), cuts)) {
          if (parser.head !== undefined) break;
          expect(parser.read(piece)).toBeUndefined();
          if (parser.head !== undefined) expect(read + parser.bodyAt).toBe(head.length);
          read += piece.length;
        }
        const { head: seen, keepsAlive } = parser;
        expect([seen?.status, keepsAlive]).toEqual([answer.status, true]);
        for (let i = 0; i < answer.headers; i++) expect(seen!.headers.get(`x-${i}`)).toBe(`value ${i}`);
        expect(seen!.headers.has("link")).toBe(false);
        parser.giveBack();
      }),
    );
  });

  test("that are cut, or of which nothing came, are none, and leave nothing to the next one", () => {
    fc.assert(
      fc.property(sent, fc.nat(), (answer, at) => {
        const parser = HeadParser.take();
        const bytes = Buffer.from(headOf(answer));
        expect([parser.read(bytes.subarray(0, at % bytes.length)), parser.head]).toEqual([undefined, undefined]);
        parser.giveBack();
        const next = HeadParser.take();
        expect(next.read(Buffer.from("HTTP/1.1 204 No Content\r\nx-own: 1\r\n\r\n"))).toBeUndefined();
        const names: string[] = [];
        next.head!.headers.forEach((_, name) => {
          names.push(name);
        });
        expect([next.head!.status, names]).toEqual([204, ["x-own"]]);
        next.giveBack();
      }),
    );
  });

  test.each([
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
    ["a length and chunks", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a length that is no number", "HTTP/1.1 200 OK\r\ncontent-length: one\r\n\r\na"],
    ["a negative length", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\na"],
    ["a list of lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\na"],
    ["no HTTP", "SSH-2.0-OpenSSH_9.6\r\n"],
    ["no end", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(300_000)}`],
    ["more headers than anybody has", `HTTP/1.1 200 OK\r\n${"a:\r\n".repeat(1_100)}\r\n`],
    ["a status below all others", "HTTP/1.1 099 Low\r\n\r\n"],
    ["a status above all others", "HTTP/1.1 600 High\r\n\r\n"],
    ["a change of protocol that names none", "HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"],
  ])("with %s are an error", (_, text) => {
    const parser = HeadParser.take();
    expect(parser.read(Buffer.from(text))).toBeInstanceOf(Error);
    expect(parser.head).toBeUndefined();
  });

  test("without end are given up, headers without names of any length and interim ones included", () => {
    for (const [start, more] of [
      ["HTTP/1.1 200 OK\r\n", "a:\r\n".repeat(250)],
      ["", "HTTP/1.1 103 Early\r\n\r\n".repeat(1_000)],
    ] as const) {
      const parser = HeadParser.take();
      parser.read(Buffer.from(start));
      let error: Error | undefined;
      for (let given = 0; error === undefined && given < 400_000; given += more.length) {
        error = parser.read(Buffer.from(more));
      }
      expect(error).toBeInstanceOf(Error);
      expect(parser.head).toBeUndefined();
      parser.giveBack();
    }
  });

  test("that are errors leave a parser for the next one", () => {
    const parser = HeadParser.take();
    expect(parser.read(Buffer.from("HTTP/1.1 103 Early\r\n\r\nwhat?\r\n\r\n"))).toBeInstanceOf(Error);
    parser.giveBack();
    const next = HeadParser.take();
    expect(next).toBe(parser);
    expect(next.read(Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"))).toBeUndefined();
    expect([next.head?.status, next.keepsAlive]).toEqual([200, true]);
    next.giveBack();
  });

  test("what an interim one says of the connection is not said of the answer's", () => {
    const parser = HeadParser.take();
    const interim = "HTTP/1.1 103 Early\r\nconnection: close\r\nlink: </x>\r\n\r\n";
    const answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
    expect(parser.read(Buffer.from(`${interim}${answer}ok`))).toBeUndefined();
    expect([parser.head?.status, parser.keepsAlive, parser.bodyAt]).toEqual([200, true, (interim + answer).length]);
    parser.giveBack();
  });

  test.each([
    ["connection: close", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n"],
    ["chunks of HTTP/1.0", "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"],
    ["an end that is the connection's", "HTTP/1.1 200 OK\r\n\r\n"],
    ["a change of protocol", "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
  ])("after %s the connection carries nothing more", (_, text) => {
    const parser = HeadParser.take();
    parser.read(Buffer.from(text));
    expect([parser.head !== undefined, parser.keepsAlive]).toEqual([true, false]);
  });
});

test("this build of Bun has a parser that does what is expected of it", () => {
  expect(parserWorks()).toBe(true);
});
