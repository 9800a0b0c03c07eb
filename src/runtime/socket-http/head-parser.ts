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

/** Of one head, and the interim ones before it, at most. */
const HEAD_BYTES = 262_144;
const HEADERS = 1_000;

/** What `kOnHeadersComplete` answers: stop here, as before a change of protocol (what follows the head is not the parser's). */
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
    const strict = HeadParser.take();
    const error = strict.read(Buffer.from(both));
    strict.giveBack();
    return error !== undefined;
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
  /** So far, where the parser gives them in several lots. */
  #pairs: string[] | undefined;
  /** Of heads so far that were not this one's end. */
  #bytes = 0;
  #interim = false;
  #wrong: string | undefined;

  private constructor() {
    if (Native === undefined) throw new Error("This build of Bun has no HTTP parser");
    const native = new Native();
    native[Native.kOnHeaders] = (pairs: string[]) => this.#headers(pairs);
    native[Native.kOnHeadersComplete] = (
      major: number,
      minor: number,
      pairs: string[] | undefined,
      _method: unknown,
      _url: unknown,
      status: number,
      _text: string,
      upgrade: boolean,
      keepsAlive: boolean,
    ) => this.#headersComplete(pairs, status, upgrade, keepsAlive, major === 1 && minor === 0);
    this.#native = native;
  }

  /** One that is ready for a head. */
  static take(): HeadParser {
    const parser = spare.pop() ?? new HeadParser();
    parser.#start();
    return parser;
  }

  #start(): void {
    this.#native.initialize(Native!.RESPONSE, {}, HEAD_BYTES);
  }

  /** It is done with, whatever came of it, and what it has read was taken off it. On Node one that is not given back is never let go of. */
  giveBack(): void {
    this.head = undefined;
    this.#pairs = undefined;
    this.#bytes = 0;
    this.#interim = false;
    this.#wrong = undefined;
    if (spare.length < SPARE) spare.push(this);
    else this.#native.close();
  }

  /** Takes bytes off the connection, until `head` is there. Gives what is wrong with them. */
  read(bytes: Uint8Array): Error | undefined {
    let at = 0;
    do {
      this.#interim = false;
      const result = this.#native.execute(at === 0 ? bytes : bytes.subarray(at));
      if (typeof result !== "number") return result;
      if (this.#wrong !== undefined) {
        this.head = undefined;
        return notHttp(this.#wrong);
      }
      at += result;
      // Anew, or what it says of the connection would hold for the answer too.
      if (this.#interim) this.#start();
    } while (this.#interim && at < bytes.length);
    this.bodyAt = at;
    if (this.head !== undefined) return undefined;
    // The parser counts names and values only.
    this.#bytes += bytes.length;
    return this.#bytes > HEAD_BYTES ? notHttp("HPE_HEADER_OVERFLOW") : undefined;
  }

  /** Called before the head is complete when it has many headers. */
  #headers(pairs: string[]): void {
    if (this.#pairs === undefined) this.#pairs = pairs;
    else if (this.#pairs.length < 2 * HEADERS) this.#pairs.push(...pairs);
    else this.#wrong = "HPE_HEADER_OVERFLOW";
  }

  #headersComplete(
    pairs: string[] | undefined,
    status: number,
    upgrade: boolean,
    keepsAlive: boolean,
    isOld: boolean,
  ): number {
    const all = pairs ?? this.#pairs ?? [];
    this.#pairs = undefined;
    if (status < 100 || status > 599 || (status === 101 && !upgrade)) this.#wrong = "HPE_INVALID_STATUS";
    else if (status < 200 && status !== 101) this.#interim = true;
    else {
      const headers = new HeaderPairs(all);
      this.head = { status, headers };
      // HTTP/1.0 knows no chunks: who sends them nevertheless is not to be trusted with another request (RFC 9112 section 6.1).
      this.keepsAlive = keepsAlive && !upgrade && !(isOld && headers.has("transfer-encoding"));
    }
    return STOP;
  }
}

/** By llhttp's names for what is wrong. */
function notHttp(code: string): Error {
  return Object.assign(new Error("The engine's answer is not HTTP"), { code });
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
