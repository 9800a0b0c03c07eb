import { createServer, type Server, type Socket } from "node:net";
import type { SimulatedEngine } from "../simulator/engine.ts";
import type { Script, SimRequest, Step } from "../simulator/script.ts";
import { ClientLeft, orLeft, sleep, systemClock } from "../simulator/time.ts";
import { MalformedRequest, RequestReader, type WireRequest } from "./simulator-http.ts";

/**
 * Plays scripts on real sockets: over `node:net` because only there an RST, a FIN without terminator, an idle close and
 * plain silence can be had; a runtime's HTTP server allows none of them.
 */

export interface ServeOptions {
  /** 0 or absent: the system chooses. */
  port?: number;
  /** Absent: 127.0.0.1. */
  host?: string;
  /** Idle connections are closed after this time; 0 = never. The default is uvicorn's. */
  idleCloseMs?: number;
}

export interface SimulatorServer {
  readonly port: number;
  readonly url: string;
  /** Connections that are open now. */
  readonly connections: number;
  /** Stops listening and resets what is open. */
  close(): Promise<void>;
}

type Handler = (request: SimRequest) => Promise<Script>;

/**
 * Serves an engine. If it dies of a malformed hand-off its connections are reset and its port is closed, as a process
 * that is gone; after `engine.restart()` it has to be served anew.
 */
export async function serveSimulator(engine: SimulatedEngine, options: ServeOptions = {}): Promise<SimulatorServer> {
  const server = await serveHandler(engine.handle, options);
  const forget = engine.onDeath(function closeWithEngine(): void {
    forget();
    void server.close();
  });
  return {
    port: server.port,
    url: server.url,
    get connections() {
      return server.connections;
    },
    async close(): Promise<void> {
      forget();
      await server.close();
    },
  };
}

/** Serves any handler of scripts: an engine's own, or its side channel. */
export async function serveHandler(handler: Handler, options: ServeOptions = {}): Promise<SimulatorServer> {
  const host = options.host ?? "127.0.0.1";
  const idleCloseMs = options.idleCloseMs ?? 5000;
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, function accept(socket: Socket): void {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    new Connection(socket, handler, idleCloseMs);
  });
  const port = await listen(server, options.port ?? 0, host);
  const authority = host.includes(":") ? `[${host}]` : host;

  return {
    port,
    url: `http://${authority}:${port}`,
    get connections() {
      return sockets.size;
    },
    close(): Promise<void> {
      return new Promise(function stop(resolve) {
        server.close(() => resolve());
        for (const socket of sockets) socket.resetAndDestroy();
      });
    },
  };
}

function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise(function start(resolve, reject) {
    server.once("error", reject);
    server.listen(port, host, function listening(): void {
      server.off("error", reject);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

class Connection {
  readonly #socket: Socket;
  readonly #handler: Handler;
  readonly #idleCloseMs: number;
  readonly #reader = new RequestReader();
  #busy = false;
  #gone = false;
  #idle: ReturnType<typeof setTimeout> | undefined;
  /** Aborts the request in progress when the client hangs up. */
  #current: AbortController | undefined;
  #continued = false;

  constructor(socket: Socket, handler: Handler, idleCloseMs: number) {
    this.#socket = socket;
    this.#handler = handler;
    this.#idleCloseMs = idleCloseMs;
    socket.on("data", (bytes: Buffer) => this.#receive(bytes));
    socket.on("end", () => this.#lost());
    socket.on("close", () => this.#lost());
    socket.on("error", () => this.#lost());
    this.#startIdle();
  }

  #receive(bytes: Buffer): void {
    clearTimeout(this.#idle);
    this.#reader.push(bytes);
    if (!this.#busy) this.#advance();
  }

  #advance(): void {
    let request: WireRequest | undefined;
    try {
      request = this.#reader.next();
    } catch (error) {
      if (!(error instanceof MalformedRequest)) throw error;
      this.#socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    if (request !== undefined) {
      this.#busy = true;
      this.#continued = false;
      void this.#serve(request);
      return;
    }
    if (this.#reader.pendingHead?.expectContinue && !this.#continued) {
      this.#continued = true;
      this.#socket.write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (!this.#reader.midRequest) this.#startIdle();
  }

  #startIdle(): void {
    if (this.#idleCloseMs <= 0 || this.#gone) return;
    clearTimeout(this.#idle);
    // Gone at once, as uvicorn's: a request that crosses the close on its way must be lost, not read and left without an answer.
    this.#idle = setTimeout(() => this.#socket.destroy(), this.#idleCloseMs);
  }

  #lost(): void {
    if (this.#gone) return;
    this.#gone = true;
    clearTimeout(this.#idle);
    this.#current?.abort();
    this.#socket.destroy();
  }

  async #serve(wire: WireRequest): Promise<void> {
    const current = new AbortController();
    this.#current = current;
    const { signal } = current;
    const path = wire.target.split("?")[0] as string;
    let script: Script | undefined;
    try {
      const request: SimRequest = { method: wire.method, path, headers: wire.headers, body: wire.body, signal };
      script = await orLeft(this.#handler(request), signal);
      const reusable = await this.#play(script, wire, signal);
      this.#current = undefined;
      script.onEnd?.("sent");
      if (!reusable) return;
      this.#busy = false;
      this.#advance();
    } catch (error) {
      script?.onEnd?.("aborted");
      // Whatever a script throws, the client must not wait for it for ever.
      if (!(error instanceof ClientLeft) && !this.#gone) this.#socket.resetAndDestroy();
    }
  }

  /** Performs a script. Resolves to whether the connection can carry another request. */
  async #play(script: Script, wire: WireRequest, signal: AbortSignal): Promise<boolean> {
    if (script.headDelayMs) await sleep(systemClock, script.headDelayMs, signal);
    const length = script.headers.find(([name]) => name.toLowerCase() === "content-length");
    const chunked = length === undefined;
    if (script.noHead !== true) {
      await this.#write(headText(script, chunked, wire.keepAlive), signal);
      for await (const step of script.steps) {
        if (wire.method !== "HEAD") await this.#perform(step, chunked, signal);
        if (signal.aborted) throw new ClientLeft();
      }
    }
    switch (script.ending) {
      case "rst":
        // What is still in our own buffer would be thrown away with the connection; what was written has to arrive first.
        await this.#flushed(signal);
        this.#socket.resetAndDestroy();
        return false;
      case "fin":
        this.#socket.end();
        return false;
      case "hang":
        await orLeft(new Promise<never>(() => {}), signal);
        return false;
      default:
        if (chunked && wire.method !== "HEAD") await this.#write("0\r\n\r\n", signal);
        if (wire.keepAlive) return true;
        this.#socket.end();
        return false;
    }
  }

  async #perform(step: Step, chunked: boolean, signal: AbortSignal): Promise<void> {
    if (step.wait !== undefined) await orLeft(typeof step.wait === "function" ? step.wait() : step.wait, signal);
    if (step.delayMs) await sleep(systemClock, step.delayMs, signal);
    const bytes =
      typeof step.bytes === "string"
        ? Buffer.from(step.bytes)
        : Buffer.from(step.bytes.buffer, step.bytes.byteOffset, step.bytes.byteLength);
    // An empty chunk would be the terminator.
    if (bytes.length === 0) return;
    if (!chunked) return this.#write(bytes, signal);
    const size = Buffer.from(`${bytes.length.toString(16)}\r\n`);
    await this.#write(Buffer.concat([size, bytes, Buffer.from("\r\n")]), signal);
  }

  /** Writes in one piece and waits while the client does not read: back-pressure reaches the script. */
  async #write(bytes: Buffer | string, signal: AbortSignal): Promise<void> {
    if (this.#gone) throw new ClientLeft();
    if (this.#socket.write(bytes)) return;
    await orLeft(new Promise<void>((resolve) => this.#socket.once("drain", () => resolve())), signal);
  }

  /** Waits until our own buffer is with the kernel; a client that does not read cannot hold a reset back for long. */
  async #flushed(signal: AbortSignal): Promise<void> {
    for (let round = 0; round < 100 && this.#socket.writableLength > 0; round++) await sleep(systemClock, 1, signal);
  }
}

const reasons: Record<number, string> = {
  200: "OK",
  400: "Bad Request",
  404: "Not Found",
  500: "Internal Server Error",
};

function headText(script: Script, chunked: boolean, keepAlive: boolean): string {
  const lines = [`HTTP/1.1 ${script.status} ${reasons[script.status] ?? "Status"}`, "server: uvicorn"];
  for (const [name, value] of script.headers) lines.push(`${name}: ${value}`);
  if (chunked) lines.push("transfer-encoding: chunked");
  if (!keepAlive) lines.push("connection: close");
  return `${lines.join("\r\n")}\r\n\r\n`;
}
