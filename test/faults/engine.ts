import { createServer, type Server, type Socket } from "node:net";
import { RequestReader, type WireRequest } from "../../src/runtime/simulator-http.ts";

/** One request as an engine saw it, and how its connection ended. */
export interface Exchange {
  readonly request: WireRequest;
  readonly arrivedAt: number;
  /** The script has played to an end of its own (clean, cut, reset). */
  over: boolean;
  /** The connection is gone, whoever closed it. */
  gone: boolean;
  goneAt: number;
  /** Which request of its connection it is, from 1. */
  readonly nth: number;
  /** Bytes handed to the socket. */
  written: number;
}

export type Play = (wire: Wire, exchange: Exchange) => Promise<void>;

/** So long a peer in the same process has to read what was written. */
const READ_MS = 30;

/** Thrown into a script whose connection is gone: nothing it could still do matters. */
export class Gone extends Error {}

/** The bare wire: every byte, every pause and every kind of ending is the script's to choose. */
export class Wire {
  readonly #socket: Socket;
  readonly #exchange: Exchange;
  readonly #gone: Promise<void>;

  constructor(socket: Socket, exchange: Exchange, gone: Promise<void>) {
    this.#socket = socket;
    this.#exchange = exchange;
    this.#gone = gone;
  }

  /** Bytes as they are; resolves when the kernel has taken them, so back-pressure is felt. */
  async raw(bytes: Buffer | string): Promise<void> {
    if (this.#exchange.gone) throw new Gone();
    this.#exchange.written += typeof bytes === "string" ? Buffer.byteLength(bytes) : bytes.length;
    if (this.#socket.write(bytes)) return;
    await this.until(new Promise<void>((resolve) => this.#socket.once("drain", resolve)));
  }

  head(status: number, type: string, more = "transfer-encoding: chunked\r\n"): Promise<void> {
    return this.raw(`HTTP/1.1 ${status} Scripted\r\ncontent-type: ${type}\r\n${more}\r\n`);
  }

  chunk(bytes: Buffer | string): Promise<void> {
    const body = typeof bytes === "string" ? Buffer.from(bytes) : bytes;
    return this.raw(Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n")]));
  }

  /** The chunked terminator: the exchange is complete and the connection can carry another. */
  async end(): Promise<void> {
    await this.raw("0\r\n\r\n");
    this.#exchange.over = true;
  }

  /** A whole JSON answer with its length. */
  async json(status: number, body: string, more = ""): Promise<void> {
    await this.head(status, "application/json", `content-length: ${Buffer.byteLength(body)}\r\n${more}`);
    await this.raw(body);
    this.#exchange.over = true;
  }

  /** Closes without whatever terminator is due. What was written gets a moment: a runtime may drop bytes that a broken end overtakes. */
  async fin(): Promise<void> {
    await this.pause(READ_MS);
    this.#exchange.over = true;
    this.#socket.end();
  }

  /** A reset throws away what the peer has not read yet, so what was written gets a moment to be read. */
  async rst(afterMs = READ_MS): Promise<void> {
    if (afterMs > 0) await this.pause(afterMs);
    this.#exchange.over = true;
    this.#socket.resetAndDestroy();
  }

  /** Nothing more, until the router hangs up. */
  async silence(): Promise<never> {
    await this.#gone;
    throw new Gone();
  }

  pause(ms: number): Promise<void> {
    return this.until(new Promise<void>((resolve) => setTimeout(resolve, ms)));
  }

  /** Waits for something, but no longer than the connection lives. */
  async until(what: Promise<unknown>): Promise<void> {
    await Promise.race([what, this.#gone]);
    if (this.#exchange.gone) throw new Gone();
  }
}

export interface EngineOptions {
  /** Idle connections are closed after this long, as uvicorn does; absent = never. */
  idleCloseMs?: number;
  /** Requests without this `x-cell` are somebody else's, who had this port before: ports are used again, on a busy machine at once. */
  cell?: string;
}

/** An engine that plays a script per request over `node:net`. */
export class ScriptedEngine {
  readonly exchanges: Exchange[] = [];
  readonly url: string;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(server: Server, sockets: Set<Socket>, port: number) {
    this.#server = server;
    this.#sockets = sockets;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(play: Play, options: EngineOptions = {}): Promise<ScriptedEngine> {
    const sockets = new Set<Socket>();
    const server = createServer({ noDelay: true }, function accept(socket) {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      serve(socket, engine, play, options);
    });
    const port = await listen(server);
    const engine = new ScriptedEngine(server, sockets, port);
    return engine;
  }

  /** Connections that are open, used or idle. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Requests whose script has not ended and whose connection is still there. */
  get open(): number {
    return this.exchanges.filter((exchange) => !exchange.over && !exchange.gone).length;
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      for (const socket of this.#sockets) socket.destroy();
    });
  }
}

/** An address where nobody listens: every engine here has another host. */
export const deadUrl = "http://127.0.0.2:9";

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", 1024, function listening() {
      const address = server.address();
      if (address === null || typeof address === "string") reject(new Error("No port"));
      else resolve(address.port);
    });
  });
}

function serve(socket: Socket, engine: ScriptedEngine, play: Play, { idleCloseMs, cell }: EngineOptions): void {
  const reader = new RequestReader();
  let current: Exchange | undefined;
  let requests = 0;
  let idle: ReturnType<typeof setTimeout> | undefined;
  const { promise: gone, resolve: leave } = Promise.withResolvers<void>();

  function lost(): void {
    clearTimeout(idle);
    if (current !== undefined && !current.gone) {
      current.gone = true;
      current.goneAt = performance.now();
    }
    leave();
    socket.destroy();
  }

  function rest(): void {
    if (idleCloseMs !== undefined) idle = setTimeout(() => socket.end(), idleCloseMs);
  }

  function advance(): void {
    const request = reader.next();
    if (request === undefined) return;
    clearTimeout(idle);
    // What a router may ask an engine about itself is no part of a request.
    if (request.method === "GET") {
      socket.write("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
      rest();
      return;
    }
    if (cell !== undefined && request.headers.get("x-cell") !== cell) {
      socket.destroy();
      return;
    }
    const exchange: Exchange = {
      request,
      arrivedAt: performance.now(),
      over: false,
      gone: false,
      goneAt: 0,
      written: 0,
      nth: ++requests,
    };
    current = exchange;
    engine.exchanges.push(exchange);
    play(new Wire(socket, exchange, gone), exchange).then(
      function next() {
        if (exchange.gone) return;
        rest();
        advance();
      },
      function stop(error: unknown) {
        if (!(error instanceof Gone)) socket.destroy();
      },
    );
  }

  socket.on("data", (bytes: Buffer) => {
    reader.push(bytes);
    if (current === undefined || current.over) advance();
  });
  socket.on("end", lost);
  socket.on("close", lost);
  socket.on("error", lost);
  rest();
}
