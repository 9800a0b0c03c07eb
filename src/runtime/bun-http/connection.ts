import { ConnectTimeout } from "../../legs/transport.ts";
import { AnswerParser } from "./answer-parser.ts";
import type { IdleConnections } from "./idle-connections.ts";
import type { Target } from "./origin.ts";
import type { RequestText } from "./request-text.ts";
import type { SocketExchange } from "./socket-exchange.ts";

/** Without a request for so long a connection is closed. Engines close theirs after 5 s. */
const IDLE_SECONDS = 60;

type Socket = Bun.Socket<Connection>;

/** One TCP connection to one engine, which carries one exchange after the other. */
export class Connection {
  readonly host: string;
  readonly #idle: IdleConnections;
  readonly #parser = new AnswerParser();
  #socket: Socket | undefined;
  #exchange: SocketExchange | undefined;
  /** Until the connection is open. */
  #request: RequestText | undefined;
  /** What of the request the kernel has not taken yet. */
  #unsent: Uint8Array | undefined;
  #reusable = false;
  #paused = false;
  #stopConnecting: ReturnType<typeof setTimeout> | undefined;
  /** Its place among the idle ones of its host. */
  place = -1;

  private constructor(host: string, idle: IdleConnections) {
    this.host = host;
    this.#idle = idle;
  }

  /** Opens one and sends `request` on it as soon as it is open. `connectMs` 0 = no limit. */
  static open(
    { host, hostname, port }: Target,
    idle: IdleConnections,
    request: RequestText,
    exchange: SocketExchange,
    reusable: boolean,
    connectMs: number,
  ): void {
    const connection = new Connection(host, idle);
    connection.#exchange = exchange;
    connection.#request = request;
    connection.#reusable = reusable;
    exchange.carriedBy(connection);
    if (connectMs > 0) {
      connection.#stopConnecting = setTimeout(() => {
        connection.#break(new ConnectTimeout(`no connection within ${connectMs} ms`));
      }, connectMs);
    }
    // What it rejects with, `connectError` is told.
    Bun.connect({ hostname, port, data: connection, socket: handlers }).catch(ignore);
  }

  /** Sends `request` on this idle connection. */
  carry(request: RequestText, exchange: SocketExchange): void {
    const socket = this.#socket!;
    socket.timeout(0);
    socket.ref();
    this.#parser.next();
    this.#exchange = exchange;
    exchange.carriedBy(this);
    this.#write(socket, request);
  }

  /** Lets the engine wait, by TCP's own means. */
  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket?.resume();
  }

  /** The exchange wants no more of its answer. */
  abandon(): void {
    this.#exchange = undefined;
    this.drop();
  }

  drop(): void {
    if (this.place >= 0) this.#idle.remove(this);
    const socket = this.#socket;
    this.#socket = undefined;
    // What still waits to be sent would keep it open.
    if (this.#unsent !== undefined) socket?.terminate();
    else socket?.end();
  }

  opened(socket: Socket): void {
    clearTimeout(this.#stopConnecting);
    const request = this.#request!;
    this.#request = undefined;
    if (this.#exchange === undefined) {
      socket.end();
      return;
    }
    this.#socket = socket;
    this.#write(socket, request);
  }

  #write(socket: Socket, { text, bytes }: RequestText): void {
    // A negative number: it is closed, which `close` tells.
    const taken = Math.max(0, socket.write(text));
    if (taken < bytes) this.#unsent = (typeof text === "string" ? Buffer.from(text) : text).subarray(taken);
  }

  writable(socket: Socket): void {
    const rest = this.#unsent;
    if (rest === undefined) return;
    const taken = Math.max(0, socket.write(rest));
    this.#unsent = taken < rest.length ? rest.subarray(taken) : undefined;
  }

  received(bytes: Uint8Array): void {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      // Nobody has asked for anything.
      this.drop();
      return;
    }
    const parser = this.#parser;
    const hadHead = parser.head !== undefined;
    const error = parser.read(bytes);
    if (!hadHead && parser.head !== undefined) exchange.begin(parser.head);
    // The exchange may be closed by what it is told.
    for (const part of parser.body()) if (this.#exchange === exchange) exchange.receive(part);
    if (this.#exchange !== exchange) return;
    if (parser.complete) this.#complete(exchange);
    else if (error !== undefined) this.#break(error);
  }

  #complete(exchange: SocketExchange): void {
    const { keepsAlive, overrun } = this.#parser;
    const socket = this.#socket;
    this.#exchange = undefined;
    // The end may have come with the bytes that were too many.
    this.resume();
    if (socket !== undefined && this.#reusable && keepsAlive && !overrun && this.#unsent === undefined) {
      socket.timeout(IDLE_SECONDS);
      socket.unref();
      this.#idle.put(this);
    } else {
      this.drop();
    }
    exchange.end();
  }

  /** The engine will send nothing more. */
  finished(): void {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      this.drop();
      return;
    }
    const error = this.#parser.end();
    if (this.#parser.complete) {
      this.#reusable = false;
      this.#complete(exchange);
    } else {
      this.#break(error ?? new Error("The engine closed the connection"));
    }
  }

  /** The connection is gone, for whatever reason. */
  gone(error: unknown): void {
    clearTimeout(this.#stopConnecting);
    this.#socket = undefined;
    this.#break(error ?? new Error("The connection was closed"));
    this.#parser.close();
  }

  #break(error: unknown): void {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    this.drop();
    exchange?.break(error);
  }
}

/** One set for all connections. */
const handlers: Bun.SocketHandler<Connection> = {
  binaryType: "uint8array",
  open: (socket) => socket.data.opened(socket),
  data: (socket, bytes) => socket.data.received(bytes),
  drain: (socket) => socket.data.writable(socket),
  end: (socket) => socket.data.finished(),
  close: (socket, error) => socket.data.gone(error),
  error: (socket, error) => socket.data.gone(error),
  connectError: (socket, error) => socket.data.gone(error),
  timeout: (socket) => socket.data.drop(),
};

function ignore(): void {}
