import { asFailure } from "../../errors/failure.ts";
import { ConnectTimeout } from "../../legs/transport.ts";
import type { AnswerBody } from "./answer-body.ts";
import { bodyAfter } from "./body-after.ts";
import type { Carrier, PushedExchange } from "./exchange.ts";
import { HeadParser } from "./head-parser.ts";
import type { IdleConnections } from "./idle-connections.ts";
import type { Target } from "./origin.ts";
import { type RequestText, restOf } from "./request-text.ts";
import type { Dialer, TcpPeer, TcpSocket } from "./tcp.ts";

/**
 * Without a request for so long a connection is closed, at the latest. Less than the 5 s after which uvicorn, in front of each of the engines,
 * closes its side: a request that meets that moment fails.
 */
const IDLE_SECONDS = 4;
/** Of silence, until the kernel asks whether the other side is there; what is in between forgets connections on which nothing moves. */
const KEEP_ALIVE_MS = 60_000;

/** One TCP connection to one engine, which carries one exchange after the other. */
export class Connection implements Carrier, TcpPeer {
  #exchange: PushedExchange | undefined;
  /** While a body is under way. */
  #body: AnswerBody | undefined;
  /** While the head of an answer is. */
  #parser: HeadParser | undefined;
  readonly host: string;
  readonly #idle: IdleConnections;
  #keepsAlive = false;
  #socket: TcpSocket | undefined;
  /** Until the connection is open. */
  #request: RequestText | undefined;
  /** What of the request the kernel has not taken yet. */
  #unsent: RequestText | undefined;
  #reusable = false;
  #paused = false;
  #connecting = false;
  #takeBack: (() => void) | undefined;
  #stopConnecting: ReturnType<typeof setTimeout> | undefined;
  /** Its place among the idle ones of its host. */
  place = -1;

  get open(): boolean {
    return this.#socket !== undefined;
  }

  private constructor(host: string, idle: IdleConnections) {
    this.host = host;
    this.#idle = idle;
  }

  /** Opens one and sends `request` on it as soon as it is open. `connectMs` 0 = no limit. */
  static open(
    dialer: Dialer,
    { host, hostname, port }: Target,
    idle: IdleConnections,
    request: RequestText,
    exchange: PushedExchange,
    reusable: boolean,
    connectMs: number,
  ): void {
    const connection = new Connection(host, idle);
    connection.#exchange = exchange;
    connection.#request = request;
    connection.#reusable = reusable;
    exchange.carriedBy(connection);
    connection.#connecting = true;
    connection.#takeBack = dialer.dial(hostname, port, connection);
    if (connectMs > 0) {
      connection.#stopConnecting = setTimeout(() => {
        connection.#break(new ConnectTimeout(`no connection within ${connectMs} ms`));
      }, connectMs);
    }
  }

  /** Sends `request` on this idle connection. */
  carry(request: RequestText, exchange: PushedExchange): void {
    const socket = this.#socket!;
    socket.timeout(0);
    socket.ref();
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

  /** Nothing more is wanted of the exchange under way. */
  abandon(): void {
    this.#exchange = undefined;
    this.#parser?.giveBack();
    this.#parser = undefined;
    this.drop();
    if (!this.#connecting || this.#request === undefined) return;
    clearTimeout(this.#stopConnecting);
    this.#request = undefined;
    if (this.#takeBack === undefined) this.#idle.abandoned(this.host, 1);
    else {
      this.#connecting = false;
      this.#takeBack();
    }
  }

  drop(): void {
    if (this.place >= 0) this.#idle.remove(this);
    const socket = this.#socket;
    this.#socket = undefined;
    // What still waits to be sent would keep it open.
    if (this.#unsent !== undefined) socket?.terminate();
    else socket?.end();
  }

  opened(socket: TcpSocket): void {
    const request = this.#connected();
    if (request === undefined) {
      socket.end();
      return;
    }
    this.#socket = socket;
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    this.#write(socket, request);
  }

  /** The connect has come to its end. Gives the request, if it is still wanted. */
  #connected(): RequestText | undefined {
    clearTimeout(this.#stopConnecting);
    const request = this.#request;
    this.#request = undefined;
    if (this.#connecting && request === undefined) this.#idle.abandoned(this.host, -1);
    this.#connecting = false;
    this.#takeBack = undefined;
    return request;
  }

  #write(socket: TcpSocket, request: RequestText): void {
    // A negative number: it is closed, which `close` tells.
    const taken = Math.max(0, socket.write(request.text));
    this.#unsent = taken < request.bytes ? restOf(request, taken) : undefined;
  }

  writable(): void {
    if (this.#socket !== undefined && this.#unsent !== undefined) this.#write(this.#socket, this.#unsent);
  }

  received(bytes: Uint8Array): void {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      // Nobody has asked for anything.
      this.drop();
      return;
    }
    const at = this.#body === undefined ? this.#readHead(bytes, exchange) : 0;
    const body = this.#body;
    // The exchange may be closed by what it is told.
    if (body === undefined || this.#exchange !== exchange) return;
    const payload = body.push(bytes, at);
    if (payload !== undefined) exchange.receive(payload);
    if (this.#exchange !== exchange) return;
    if (body.complete) this.#complete(exchange, body);
    else if (body.error !== undefined) this.#break(body.error);
  }

  /** Gives where the body begins. */
  #readHead(bytes: Uint8Array, exchange: PushedExchange): number {
    this.#parser ??= HeadParser.take();
    const parser = this.#parser;
    const error = parser.read(bytes);
    const { head, keepsAlive, bodyAt } = parser;
    if (head === undefined) {
      if (error !== undefined) this.#break(error);
      return 0;
    }
    this.#parser = undefined;
    parser.giveBack();
    this.#keepsAlive = keepsAlive;
    this.#body = bodyAfter(head);
    exchange.begin(head);
    return bodyAt;
  }

  #complete(exchange: PushedExchange, { overrun }: AnswerBody): void {
    const socket = this.#socket;
    this.#exchange = undefined;
    this.#body = undefined;
    // The end may have come with the bytes that were too many.
    this.resume();
    if (socket !== undefined && this.#reusable && this.#keepsAlive && !overrun && this.#sent) {
      socket.timeout(IDLE_SECONDS);
      socket.unref();
      this.#idle.settle(this);
    } else {
      this.drop();
    }
    exchange.end();
  }

  /** The kernel has the whole request. */
  get #sent(): boolean {
    return this.#unsent === undefined && this.#socket?.holding?.() !== true;
  }

  /** The engine will send nothing more. */
  finished(): void {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      this.drop();
      return;
    }
    const body = this.#body;
    const error = body?.end();
    // A reset is told as an end where it meets a request that is not wholly sent.
    if (body?.complete === true && this.#sent) {
      this.#reusable = false;
      this.#complete(exchange, body);
    } else {
      this.#break(error ?? new Error("The engine closed the connection"));
    }
  }

  /** The connection is gone, for whatever reason. */
  gone(error: unknown): void {
    this.#connected();
    this.#socket = undefined;
    this.#break(error ?? new Error("The connection was closed"));
  }

  idle(): void {
    this.drop();
  }

  /** By whoever was told something: a failure of our own, for which no engine is to blame. */
  threw(error: unknown): void {
    this.#connected();
    this.#break(asFailure(error));
  }

  #break(error: unknown): void {
    const exchange = this.#exchange;
    this.abandon();
    exchange?.break(error);
  }
}
