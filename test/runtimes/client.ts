import { connect, type Socket } from "node:net";

export interface Ask {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  /** Of HTTP; default 1.1. */
  version?: "1.0";
  /** Sent with its length. */
  body?: string;
  /** Sent after the head, byte for byte, in place of `body`: framing is the caller's. */
  raw?: string;
}

export interface Piece {
  at: number;
  text: string;
}

/**
 * One request on one socket of its own, seen as bytes: what a library would hide (when each piece came, how the body ended, whether it
 * ended at all) is what the scenarios are about.
 */
export class Exchange {
  status = 0;
  readonly headers = new Map<string, string>();
  /** Body pieces as they came, dechunked. */
  readonly pieces: Piece[] = [];
  /** `clean`: terminator or full length. `cut`: anything else. */
  ending: "clean" | "cut" | undefined;
  readonly startedAt = performance.now();
  endedAt = 0;
  readonly #socket: Socket;
  readonly #listeners = new Set<() => void>();
  #left: Buffer = Buffer.alloc(0);
  #headDone = false;
  #chunked = false;
  #chunkLeft = 0;
  #lengthLeft = Number.NaN;
  readonly #bytes: Buffer[] = [];

  constructor(port: number, ask: Ask) {
    this.#socket = connect({ host: "127.0.0.1", port, noDelay: true });
    this.#socket.on("data", (bytes: Buffer) => this.#data(bytes));
    this.#socket.on("error", () => this.#end("cut"));
    this.#socket.on("close", () => this.#end(Number.isNaN(this.#lengthLeft) && !this.#chunked ? "clean" : "cut"));
    const { method = "POST", path = "/v1/chat/completions", headers = {}, body = "", raw, version = "1.1" } = ask;
    const all: Record<string, string> = { host: "router", "content-type": "application/json", ...headers };
    if (raw === undefined && method !== "GET") all["content-length"] = String(Buffer.byteLength(body));
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#socket.write(`${method} ${path} HTTP/${version}\r\n${lines.join("")}\r\n${raw ?? body}`);
  }

  get text(): string {
    return Buffer.concat(this.#bytes).toString("utf8");
  }

  get json(): unknown {
    return JSON.parse(this.text);
  }

  /** `data` of each event, in order. */
  get events(): string[] {
    const found: string[] = [];
    for (const event of this.text.split("\n\n")) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data !== undefined) found.push(data.slice(6));
    }
    return found;
  }

  get error(): Record<string, unknown> {
    return (this.json as { error: Record<string, unknown> }).error;
  }

  write(text: string): void {
    this.#socket.write(text);
  }

  head(): Promise<this> {
    return this.until(() => this.#headDone || this.ending !== undefined);
  }

  done(): Promise<this> {
    return this.until(() => this.ending !== undefined);
  }

  saw(text: string): Promise<this> {
    return this.until(() => this.text.includes(text) || this.ending !== undefined);
  }

  /** Rejects after ten seconds: a scenario that waits for ever says where. */
  until(met: () => boolean, ms = 10_000): Promise<this> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#listeners.delete(look);
        reject(new Error(`Nothing more came: status ${this.status}, body ${JSON.stringify(this.text.slice(-300))}`));
      }, ms);
      const look = () => {
        if (!met()) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve(this);
      };
      this.#listeners.add(look);
      look();
    });
  }

  /** Closes the socket in order, or by a reset. */
  leave(how: "fin" | "rst" = "rst"): void {
    if (how === "rst") this.#socket.resetAndDestroy();
    else this.#socket.destroy();
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  #data(bytes: Buffer): void {
    this.#left = this.#left.length === 0 ? bytes : Buffer.concat([this.#left, bytes]);
    if (!this.#headDone && !this.#readHead()) return;
    if (this.#chunked) this.#readChunks();
    else if (this.#left.length > 0) {
      this.#lengthLeft -= this.#left.length;
      this.#piece(this.#left);
      this.#left = Buffer.alloc(0);
      if (this.#lengthLeft <= 0) this.#end("clean");
    }
    this.#tell();
  }

  #readHead(): boolean {
    const end = this.#left.indexOf("\r\n\r\n");
    if (end < 0) return false;
    const [first, ...lines] = this.#left.subarray(0, end).toString("latin1").split("\r\n");
    this.#left = this.#left.subarray(end + 4);
    this.status = Number(first?.split(" ")[1]);
    for (const line of lines) {
      const colon = line.indexOf(":");
      this.headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
    }
    if (this.status === 100) return this.#readHead();
    this.#headDone = true;
    this.#chunked = this.headers.get("transfer-encoding") === "chunked";
    if (!this.#chunked) this.#lengthLeft = Number(this.headers.get("content-length") ?? Number.NaN);
    if (this.#lengthLeft === 0) this.#end("clean");
    return true;
  }

  #readChunks(): void {
    while (this.#left.length > 0) {
      if (this.#chunkLeft > 0) {
        const part = this.#left.subarray(0, Math.min(this.#chunkLeft, this.#left.length));
        this.#left = this.#left.subarray(part.length);
        this.#chunkLeft -= part.length;
        // The last two bytes of a chunk are its line end.
        this.#piece(part);
        continue;
      }
      const line = this.#left.indexOf("\r\n");
      if (line < 0) return;
      const size = this.#left.subarray(0, line).toString("latin1");
      if (size === "") {
        this.#left = this.#left.subarray(2);
        continue;
      }
      this.#left = this.#left.subarray(line + 2);
      this.#chunkLeft = Number.parseInt(size, 16);
      if (this.#chunkLeft > 0) continue;
      this.#end("clean");
      return;
    }
  }

  #piece(bytes: Buffer): void {
    this.#bytes.push(Buffer.from(bytes));
    this.pieces.push({ at: performance.now(), text: bytes.toString("utf8") });
  }

  #end(how: "clean" | "cut"): void {
    if (this.ending !== undefined) return;
    this.ending = how;
    this.endedAt = performance.now();
    this.#socket.destroy();
    this.#tell();
  }

  #tell(): void {
    for (const look of [...this.#listeners]) look();
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Polls, since what is waited for happens in another process. */
export async function eventually(what: string, met: () => boolean | Promise<boolean>, ms = 3_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await met())) {
    if (performance.now() > end) throw new Error(`Not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}
