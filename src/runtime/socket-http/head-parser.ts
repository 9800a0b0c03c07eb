import type { AnswerHead } from "../../legs/exchange.ts";
import { HeaderPairs } from "./header-pairs.ts";

/** The runtime's own HTTP parser (llhttp), with the interface that Node's `http` module has of it: callbacks in numbered slots. */
interface NativeParser {
  [slot: number]: unknown;
  initialize(type: number, resource: object, maxHeaderBytes: number): void;
  /** How many bytes it took, or what is wrong with them. */
  execute(bytes: Uint8Array): number | Error;
  close(): void;
}

interface NativeParserClass {
  new (): NativeParser;
  readonly RESPONSE: number;
  readonly kOnHeaders: number;
  readonly kOnHeadersComplete: number;
}

/** Of one head, at most. */
const HEAD_BYTES = 262_144;

/** What `kOnHeadersComplete` answers: go on, or stop here as before a change of protocol (what follows the head is not the parser's). */
const GO_ON = 0;
const STOP = 2;

/** So many parsers wait for their next head. As a rule a head comes in one piece, and one parser reads them all. */
const SPARE = 16;
const spare: HeadParser[] = [];

const Native = findNative();

/** Whether this build of Bun has the parser, and it does what is expected of it. */
export function parserWorks(): boolean {
  try {
    const bytes = Buffer.from("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    const parser = HeadParser.take();
    if (parser.read(bytes) !== undefined || parser.head?.status !== 200) return false;
    if (parser.bodyAt !== bytes.length - 2 || !parser.keepsAlive) return false;
    parser.giveBack();
    const both = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n";
    return HeadParser.take().read(Buffer.from(both)) !== undefined;
  } catch {
    return false;
  }
}

/** Reads the head of one answer, strictly. What follows the head is not looked at. */
export class HeadParser {
  readonly #native: NativeParser;
  /** Once it has come. Interim ones (1xx) are passed over. */
  head: AnswerHead | undefined;
  /** Where the body begins in the bytes that completed the head. */
  bodyAt = 0;
  /** The connection may carry another answer after this one. */
  keepsAlive = false;
  #pairs: string[] | undefined;

  private constructor() {
    if (Native === undefined) throw new Error("This build of Bun has no HTTP parser");
    const native = new Native();
    native[Native.kOnHeaders] = (pairs: string[]) => this.#headers(pairs);
    native[Native.kOnHeadersComplete] = (
      _major: number,
      _minor: number,
      pairs: string[] | undefined,
      _method: unknown,
      _url: unknown,
      status: number,
      _text: string,
      upgrade: boolean,
      keepsAlive: boolean,
    ) => this.#headersComplete(pairs, status, upgrade, keepsAlive);
    this.#native = native;
  }

  /** One that is ready for a head. */
  static take(): HeadParser {
    const parser = spare.pop() ?? new HeadParser();
    parser.#native.initialize(Native!.RESPONSE, {}, HEAD_BYTES);
    return parser;
  }

  /** It is done with, and what it has read was taken off it. */
  giveBack(): void {
    this.head = undefined;
    this.#pairs = undefined;
    if (spare.length < SPARE) spare.push(this);
    else this.#native.close();
  }

  /** Takes bytes off the connection, until `head` is there. Gives what is wrong with them. */
  read(bytes: Uint8Array): Error | undefined {
    const result = this.#native.execute(bytes);
    if (typeof result !== "number") return result;
    this.bodyAt = result;
    return undefined;
  }

  /** Called before the head is complete when it has many headers. */
  #headers(pairs: string[]): void {
    this.#pairs = this.#pairs === undefined ? pairs : this.#pairs.concat(pairs);
  }

  #headersComplete(pairs: string[] | undefined, status: number, upgrade: boolean, keepsAlive: boolean): number {
    const all = pairs ?? this.#pairs ?? [];
    this.#pairs = undefined;
    if (status < 200 && !upgrade) return GO_ON;
    this.head = { status, headers: new HeaderPairs(all) };
    this.keepsAlive = keepsAlive && !upgrade;
    return STOP;
  }
}

function findNative(): NativeParserClass | undefined {
  try {
    // Not by `process.binding`, which warns on Node.
    const common: unknown = process.getBuiltinModule("_http_common");
    return (common as { HTTPParser?: NativeParserClass } | undefined)?.HTTPParser;
  } catch {
    return undefined;
  }
}
