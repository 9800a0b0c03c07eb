import { connect, type Socket } from "node:net";

/** An answer as it stood on the wire. */
export interface RawAnswer {
  status: number;
  headers: Headers;
  body: Buffer;
  /** The body's own framing said that it is complete: terminator, or length. */
  whole: boolean;
  /** Why it is not, or what was wrong on the wire. */
  flaw: string;
  /** When the last byte came, in milliseconds from the request. */
  tookMs: number;
}

export interface RawRequest {
  port: number;
  path: string;
  body: string;
  headers?: Record<string, string>;
  /** Nothing is waited for longer. */
  limitMs?: number;
}

/** A client of bare sockets: it keeps every byte, can stop reading, and can hang up when it likes. */
export class RawClient {
  readonly socket: Socket;
  readonly #from = performance.now();
  readonly #chunks: Buffer[] = [];
  #received = 0;
  #lastAt = 0;
  #closed = false;
  #failed = "";
  #waiting: { bytes: number; resolve: () => void }[] = [];

  constructor({ port, path, body, headers = {} }: RawRequest) {
    this.socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const lines = Object.entries({
      host: `127.0.0.1:${port}`,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      connection: "close",
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    this.socket.write(`POST ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`);
    this.socket.on("data", (bytes: Buffer) => {
      this.#chunks.push(bytes);
      this.#received += bytes.length;
      this.#lastAt = performance.now();
      this.#wake();
    });
    this.socket.on("error", (error) => {
      this.#failed = error.message;
      this.#end();
    });
    this.socket.on("close", () => this.#end());
    this.socket.on("end", () => this.#end());
  }

  get received(): number {
    return this.#received;
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  /** Resolves when so many bytes (head included) have come, or the connection is over. */
  until(bytes: number): Promise<void> {
    if (this.#closed || this.#received >= bytes) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ bytes, resolve }));
  }

  /** Reads to the end of the answer and closes. */
  async answer(limitMs = 20_000): Promise<RawAnswer> {
    const timer = setTimeout(() => {
      this.#failed = `still open after ${limitMs} ms`;
      this.#end();
    }, limitMs);
    for (;;) {
      const parsed = parse(Buffer.concat(this.#chunks));
      if (parsed?.whole === true || parsed?.flaw || this.#closed) {
        clearTimeout(timer);
        this.socket.destroy();
        const answer = parsed ?? { status: 0, headers: new Headers(), body: Buffer.alloc(0), whole: false, flaw: "" };
        const flaw = answer.flaw || (answer.whole ? "" : this.#failed || "closed before the end");
        return { ...answer, flaw, tookMs: this.#lastAt - this.#from };
      }
      await this.until(this.#received + 1);
    }
  }

  /** Vanishes: with a reset, or with an orderly close. */
  hangUp(how: "reset" | "close" = "close"): void {
    if (how === "reset") this.socket.resetAndDestroy();
    else this.socket.destroy();
  }

  #end(): void {
    this.#closed = true;
    this.#wake();
  }

  #wake(): void {
    const ready = this.#waiting.filter(({ bytes }) => this.#closed || this.#received >= bytes);
    this.#waiting = this.#waiting.filter((waiter) => !ready.includes(waiter));
    for (const { resolve } of ready) resolve();
  }
}

/** Asks once and reads to the end. */
export function ask(request: RawRequest): Promise<RawAnswer> {
  return new RawClient(request).answer(request.limitMs);
}

type Parsed = Omit<RawAnswer, "tookMs">;

/** Undefined while there is no whole head. Strict: a router has no excuse for a broken frame. */
function parse(bytes: Buffer): Parsed | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [start = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(start)?.[1] ?? 0);
  const headers = new Headers();
  for (const line of lines) headers.append(line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim());
  const rest = bytes.subarray(headEnd + 4);
  if (headers.get("transfer-encoding") === "chunked") return { status, headers, ...unchunk(rest) };
  const length = Number(headers.get("content-length") ?? Number.NaN);
  if (Number.isNaN(length)) return { status, headers, body: rest, whole: false, flaw: "neither length nor chunks" };
  const flaw = rest.length > length ? `${rest.length - length} bytes more than its length` : "";
  return { status, headers, body: rest.subarray(0, length), whole: rest.length === length, flaw };
}

function unchunk(bytes: Buffer): { body: Buffer; whole: boolean; flaw: string } {
  const parts: Buffer[] = [];
  let at = 0;
  const so = (whole: boolean, flaw = "") => ({ body: Buffer.concat(parts), whole, flaw });
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return so(false);
    const line = bytes.toString("latin1", at, lineEnd);
    if (!/^[0-9a-fA-F]+$/.test(line)) return so(false, `bad chunk size "${line}"`);
    const size = Number.parseInt(line, 16);
    at = lineEnd + 2;
    if (bytes.length < at + size + 2) {
      if (size > 0) parts.push(bytes.subarray(at, at + size));
      return so(false);
    }
    if (bytes[at + size] !== 13 || bytes[at + size + 1] !== 10) return so(false, "a chunk is longer than it says");
    if (size === 0) return bytes.length > at + 2 ? so(false, "bytes after the terminator") : so(true);
    parts.push(bytes.subarray(at, at + size));
    at += size + 2;
  }
}
