import type { AnswerHead } from "../../legs/exchange.ts";
import { HeaderPairs } from "./header-pairs.ts";

/** The runtime's own HTTP parser (llhttp), with the interface that Node's `http` module has of it: callbacks in numbered slots. */
interface NativeParser {
  [slot: number]: unknown;
  initialize(type: number, resource: object, maxHeaderBytes: number): void;
  /** How many bytes it took, or what is wrong with them. */
  execute(bytes: Uint8Array): number | Error;
  /** The connection has ended: an Error where that is no way for an answer to end. */
  finish(): Error | undefined;
  close(): void;
}

interface NativeParserClass {
  new (): NativeParser;
  readonly RESPONSE: number;
  readonly kOnMessageBegin: number;
  readonly kOnHeaders: number;
  readonly kOnHeadersComplete: number;
  readonly kOnBody: number;
  readonly kOnMessageComplete: number;
}

/** Of one head, at most. */
const HEAD_BYTES = 262_144;

/** So many bytes are worth a copy. */
const JOINED = 16_384;

const Native = findNative();

/** Whether this build of Bun has the parser, and it does what is expected of it. */
export function parserWorks(): boolean {
  try {
    const parser = new AnswerParser();
    const error = parser.read(
      Buffer.from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nH"),
    );
    const whole = error === undefined && parser.head?.status === 200 && parser.body()[0]?.length === 2;
    if (!whole || !parser.complete || !parser.keepsAlive || !parser.overrun) return false;
    const strict = new AnswerParser();
    return strict.read(Buffer.from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")) !== undefined;
  } catch {
    return false;
  }
}

/** The answers on one connection, one after the other. Strict: what a lenient reader might take for an end is an error. */
export class AnswerParser {
  readonly #native: NativeParser;
  /** Of the present answer, once it has come. Interim ones (1xx) are passed over. */
  head: AnswerHead | undefined;
  /** The present answer has come to its end. */
  complete = false;
  /** The connection may carry another answer after this one. */
  keepsAlive = false;
  /** Something came after the end of the answer that nobody has asked for. */
  overrun = false;
  #pairs: string[] | undefined;
  #interim = false;
  #parts: Uint8Array[] = [];

  constructor() {
    if (Native === undefined) throw new Error("This build of Bun has no HTTP parser");
    const native = new Native();
    native[Native.kOnMessageBegin] = () => {
      if (this.complete) this.overrun = true;
    };
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
    native[Native.kOnBody] = (bytes: Uint8Array) => {
      if (!this.complete) this.#parts.push(bytes);
    };
    native[Native.kOnMessageComplete] = () => this.#messageComplete();
    native.initialize(Native.RESPONSE, {}, HEAD_BYTES);
    this.#native = native;
  }

  /** Takes bytes off the connection. Gives what is wrong with them; what was right before that counts nevertheless. */
  read(bytes: Uint8Array): Error | undefined {
    const result = this.#native.execute(bytes);
    return typeof result === "number" ? undefined : result;
  }

  /** The connection has ended. Gives an Error where the answer has not: most answers tell their length, and some end in just this way. */
  end(): Error | undefined {
    return this.#native.finish();
  }

  /** The bytes of the body that came since the last call. Short pieces are one: each costs its reader as much as a long one. */
  body(): readonly Uint8Array[] {
    const parts = this.#parts;
    if (parts.length === 0) return parts;
    this.#parts = [];
    return parts.length === 1 || bytesOf(parts) > JOINED ? parts : [Buffer.concat(parts)];
  }

  /** Makes ready for the next answer. */
  next(): void {
    this.head = undefined;
    this.complete = false;
  }

  close(): void {
    this.#native.close();
  }

  /** Called before the head is complete when it has many headers, and for trailers, which are nobody's. */
  #headers(pairs: string[]): void {
    if (this.head === undefined) this.#pairs = this.#pairs === undefined ? pairs : this.#pairs.concat(pairs);
  }

  #headersComplete(pairs: string[] | undefined, status: number, upgrade: boolean, keepsAlive: boolean): number {
    if (this.complete) return 0;
    this.#interim = status < 200 && !upgrade;
    if (!this.#interim) this.head = { status, headers: new HeaderPairs(pairs ?? this.#pairs ?? []) };
    this.#pairs = undefined;
    this.keepsAlive = keepsAlive && !upgrade;
    return 0;
  }

  #messageComplete(): void {
    if (this.#interim) this.#interim = false;
    else this.complete = true;
  }
}

function bytesOf(parts: readonly Uint8Array[]): number {
  let bytes = 0;
  for (const part of parts) bytes += part.length;
  return bytes;
}

function findNative(): NativeParserClass | undefined {
  try {
    return (process.binding("http_parser") as { HTTPParser?: NativeParserClass }).HTTPParser;
  } catch {
    return undefined;
  }
}
