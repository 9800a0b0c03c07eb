import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ChunkedBody } from "../../../src/runtime/socket-http/chunked-body.ts";
import { pieces } from "./pieces.ts";

interface Read {
  text: string;
  complete: boolean;
  wrong: boolean;
}

function read(bytes: Uint8Array, cuts: readonly number[]): Read & { body: ChunkedBody } {
  const body = new ChunkedBody();
  const parts: Uint8Array[] = [];
  for (const piece of pieces(bytes, cuts)) {
    const part = body.push(piece, 0);
    if (part !== undefined) parts.push(part);
    if (body.error !== undefined) break;
  }
  return { body, text: latin1(parts), complete: body.complete, wrong: body.error !== undefined };
}

function latin1(parts: readonly Uint8Array[]): string {
  return Buffer.concat(parts).toString("latin1");
}

/** The runtime's own parser on the same bytes: what is an end for it, and what is not. */
function oracle(bytes: Uint8Array): Read {
  // biome-ignore lint/suspicious/noExplicitAny: the runtime's own, untyped
  const { HTTPParser } = (process as any).binding("http_parser");
  const parser = new HTTPParser();
  const parts: Uint8Array[] = [];
  let complete = false;
  parser[HTTPParser.kOnHeadersComplete] = () => 0;
  parser[HTTPParser.kOnBody] = (part: Uint8Array) => {
    if (!complete) parts.push(new Uint8Array(part));
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    complete = true;
  };
  parser.initialize(HTTPParser.RESPONSE, {}, 1_000_000);
  parser.execute(Buffer.from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"));
  const result = parser.execute(Buffer.from(bytes));
  return { text: latin1(parts), complete, wrong: typeof result !== "number" && !complete };
}

const chunk = fc.tuple(
  fc.uint8Array({ minLength: 1, maxLength: 600 }),
  fc.constantFrom("", ";a", ";a=b", ';a="b;c"', ";x=1;y=2"),
  fc.constantFrom("", "0", "000"),
  fc.boolean(),
);
const chunks = fc.array(chunk, { maxLength: 12 });
const trailers = fc.constantFrom("", "x-late: 1\r\n", "a: b\r\nc: d\r\n");

function wire(list: readonly (readonly [Uint8Array, string, string, boolean])[], trailer: string): Buffer {
  const parts = list.flatMap(([data, extension, zeros, upper]) => {
    const size = data.length.toString(16);
    return [`${zeros}${upper ? size.toUpperCase() : size}${extension}\r\n`, data, "\r\n"];
  });
  return Buffer.concat([...parts, `0\r\n${trailer}\r\n`].map((part) => Buffer.from(part as string)));
}

function noSemicolon(byte: number): number {
  return byte === 0x3b ? 0 : byte;
}

describe("chunks", () => {
  test("are one body however they are cut", () => {
    fc.assert(
      fc.property(chunks, trailers, fc.array(fc.nat()), (list, trailer, cuts) => {
        const { text, complete, body } = read(wire(list, trailer), cuts);
        expect([text, complete, body.overrun, body.error]).toEqual([
          latin1(list.map(([data]) => data)),
          true,
          false,
          undefined,
        ]);
      }),
    );
  });

  test("within one piece come as one, whole ones without a copy where that is worth something", () => {
    const data = Buffer.alloc(5_000, "x");
    const bytes = new Uint8Array(Buffer.concat([Buffer.from("1388\r\n"), data, Buffer.from("\r\n")]));
    const part = new ChunkedBody().push(bytes, 0)!;
    expect([part.length, part.buffer === bytes.buffer]).toEqual([5_000, true]);
    const two = Buffer.from("3\r\nabc\r\n2\r\nde\r\n1\r\n");
    expect(latin1([new ChunkedBody().push(new Uint8Array(two), 0)!])).toBe("abcde");
  });

  test("that are cut before their end are never complete", () => {
    fc.assert(
      fc.property(chunks, trailers, fc.nat(), fc.array(fc.nat()), (list, trailer, at, cuts) => {
        const bytes = wire(list, trailer);
        const { body, wrong } = read(bytes.subarray(0, at % bytes.length), cuts);
        expect([body.complete, wrong, body.end()]).toEqual([false, false, expect.any(Error)]);
      }),
    );
  });

  test("may each have an extension, however many they are", () => {
    const { complete, text } = read(Buffer.from(`${"1;id=12345\r\na\r\n".repeat(20_000)}0\r\n\r\n`), []);
    expect([complete, text.length]).toEqual([true, 20_000]);
  });

  test("followed by something that nobody has asked for are an overrun", () => {
    const { text, complete, body } = read(Buffer.from("1\r\na\r\n0\r\n\r\nH"), []);
    expect([text, complete, body.overrun]).toEqual(["a", true, true]);
  });

  test("with damage anywhere end nowhere where the runtime's own parser sees no end, and give the same bytes", () => {
    const damage = fc.tuple(
      fc.nat(),
      fc.constantFrom("", "\r", "\n", "0", "f", "g", ":", " ", "\t", "\0", "-", "\r\n", "0\r\n\r\n", '"'),
      fc.nat({ max: 3 }),
    );
    fc.assert(
      fc.property(
        chunks,
        trailers,
        fc.array(damage, { maxLength: 3 }),
        fc.array(fc.nat()),
        (list, trailer, all, cuts) => {
          // Without extensions: nobody looks whether they are some.
          const plain = list.map(([data, , zeros, upper]) => [data.map(noSemicolon), "", zeros, upper] as const);
          let bytes = wire(plain, trailer);
          for (const [at, put, removed] of all) {
            const where = at % (bytes.length + 1);
            bytes = Buffer.concat([bytes.subarray(0, where), Buffer.from(put), bytes.subarray(where + removed)]);
          }
          const own = read(bytes, cuts);
          const theirs = oracle(bytes);
          if (own.complete) expect([theirs.complete, own.text]).toEqual([true, theirs.text]);
          else expect(theirs.text.startsWith(own.text) || own.text.startsWith(theirs.text)).toBe(true);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ["a word for a size", "zz\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["a negative size", "-1\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["no size", "\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["a size beyond all numbers", "fffffffffffffff\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["a space after the size", "2 \r\nab\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["a bare LF after the size", "2\nab\r\n", "HPE_INVALID_CHUNK_SIZE"],
    ["a bare LF in an extension", "2;a\nab\r\n", "HPE_CR_EXPECTED"],
    ["a bare CR after the size", "2\rab\r\n", "HPE_LF_EXPECTED"],
    ["more than they say", "2\r\nabc\r\n", "HPE_STRICT"],
    ["a bare CR after the data", "2\r\nab\r3\r\n", "HPE_LF_EXPECTED"],
    ["a bare LF in a trailer", "0\r\na: b\n\r\n", "HPE_CR_EXPECTED"],
    ["a trailer without a name", "0\r\n: b\r\n\r\n", "HPE_INVALID_HEADER_TOKEN"],
    ["a trailer that is none", "0\r\n{}\r\n\r\n", "HPE_INVALID_HEADER_TOKEN"],
    ["a control character in a trailer", "0\r\na: \0\r\n\r\n", "HPE_INVALID_HEADER_TOKEN"],
    ["a bare CR in a trailer", "0\r\na: b\rc\r\n", "HPE_LF_EXPECTED"],
    ["a bare CR at the end", "0\r\n\rx", "HPE_LF_EXPECTED"],
    ["a size without end", "0".repeat(70_000), "HPE_INVALID_CHUNK_SIZE"],
    ["an extension without end", `2;${"x".repeat(70_000)}`, "HPE_CHUNK_EXTENSIONS_OVERFLOW"],
    ["trailers without end", `0\r\n${"a: b\r\n".repeat(40_000)}`, "HPE_CHUNK_EXTENSIONS_OVERFLOW"],
  ])("with %s are an error", (_, text, code) => {
    const { body } = read(Buffer.from(text), []);
    expect([body.complete, body.overrun, (body.error as { code?: string }).code]).toEqual([false, false, code]);
    expect(body.end()).toBe(body.error);
  });
});

test("a byte of data keeps nothing in memory of what surrounds it", () => {
  const body = new ChunkedBody();
  const bytes = new Uint8Array(Buffer.from(`1;${"x".repeat(60_000)}\r\na\r\n`));
  const payload = body.push(bytes, 0)!;
  expect([Buffer.from(payload).toString(), payload.buffer.byteLength]).toEqual(["a", 1]);
});
