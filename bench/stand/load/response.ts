/** Where a response's payload goes. Ranges, not copies: the generator must cost less than the routers it loads. */
export interface ResponseSink {
  status(code: number): void;
  payload(bytes: Buffer, from: number, to: number): void;
  /** The whole response is there; `keep` says whether the connection may be used again. */
  whole(keep: boolean): void;
}

const CR = 0x0d;
const LF = 0x0a;
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;
const CLOSE = /\r\nconnection: *close/i;

type Part = "head" | "length" | "size" | "chunk" | "chunk end" | "trailer" | "until close";

/** HTTP/1.1 responses of one connection, one at a time. */
export class ResponseReader {
  readonly #sink: ResponseSink;
  #part: Part = "head";
  #pending: Buffer | undefined;
  #left = 0;
  #size = 0;
  #lineLength = 0;
  #keep = true;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  take(bytes: Buffer): void {
    let at = 0;
    if (this.#part === "head") {
      const all = this.#pending === undefined ? bytes : Buffer.concat([this.#pending, bytes]);
      const end = all.indexOf("\r\n\r\n");
      if (end < 0) {
        this.#pending = all;
        return;
      }
      this.#pending = undefined;
      this.#readHead(all.toString("latin1", 0, end));
      bytes = all;
      at = end + 4;
      if (this.#empty) this.#end();
    }
    while (at < bytes.length) at = this.#step(bytes, at);
  }

  /** The connection has ended: true if that is how this response says that it is whole. */
  closed(): boolean {
    if (this.#part !== "until close") return false;
    this.#keep = false;
    this.#end();
    return true;
  }

  #readHead(head: string): void {
    const length = LENGTH.exec(head)?.[1];
    this.#keep = !CLOSE.test(head);
    if (length !== undefined) {
      this.#left = Number(length);
      this.#part = "length";
    } else this.#part = CHUNKED.test(head) ? "size" : "until close";
    this.#size = 0;
    this.#lineLength = 0;
    this.#sink.status(Number(head.slice(9, 12)));
  }

  get #empty(): boolean {
    return this.#part === "length" && this.#left === 0;
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.#part) {
      case "length":
      case "chunk": {
        const to = Math.min(bytes.length, at + this.#left);
        this.#left -= to - at;
        this.#sink.payload(bytes, at, to);
        if (this.#left === 0) {
          if (this.#part === "length") this.#end();
          else this.#part = "chunk end";
        }
        return to;
      }
      case "size":
        return this.#sizeLine(bytes, at);
      case "chunk end":
        if (bytes[at] === LF) this.#part = "size";
        return at + 1;
      case "trailer": {
        const byte = bytes[at];
        if (byte === LF) {
          if (this.#lineLength === 0) this.#end();
          else this.#lineLength = 0;
        } else if (byte !== CR) this.#lineLength++;
        return at + 1;
      }
      case "until close":
        this.#sink.payload(bytes, at, bytes.length);
        return bytes.length;
      default:
        throw new Error("Bytes after a response that nobody asked for");
    }
  }

  #sizeLine(bytes: Buffer, from: number): number {
    let at = from;
    for (; at < bytes.length; at++) {
      const byte = bytes[at] as number;
      if (byte === LF) {
        this.#left = this.#size;
        this.#size = 0;
        this.#lineLength = 0;
        this.#part = this.#left === 0 ? "trailer" : "chunk";
        return at + 1;
      }
      // 0-9, then A-F and a-f; a chunk extension does not occur and would be a wrong size, which is noticed.
      if (byte !== CR) this.#size = this.#size * 16 + (byte <= 0x39 ? byte - 0x30 : (byte | 0x20) - 0x57);
    }
    return at;
  }

  #end(): void {
    this.#part = "head";
    this.#sink.whole(this.#keep);
  }
}
