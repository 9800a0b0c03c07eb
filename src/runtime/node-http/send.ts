import { Agent, type Dispatcher, errors } from "undici";
import type { Exchange, HeadListener } from "../../legs/exchange.ts";
import { ConnectTimeout, type SendRequest } from "../../legs/transport.ts";
import { type Carrier, PushedExchange } from "../pushed-exchange.ts";
import { RecordHeaders } from "./record-headers.ts";
import { unpackedByNode } from "./unpack.ts";

/** undici gives up after 300 s without headers or body bytes, and after 10 s without a connection; the router's deadlines are its own. */
export const NO_LIMITS = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 0 } } as const;

let kept: Agent | undefined;
/** Keeps no connection: for requests that must not meet a stale one. */
let fresh: Agent | undefined;

/** The one through which a request goes. */
export function agentFor(request: { fresh?: boolean }): Agent {
  if (request.fresh === true) {
    fresh ??= new Agent({ ...NO_LIMITS, pipelining: 0 });
    return fresh;
  }
  kept ??= new Agent(NO_LIMITS);
  return kept;
}

/** Posts through undici's dispatcher, which `fetch` is built on: what comes is told by callbacks, without a stream and a promise for each part. */
export function sendOverDispatcher(url: string, request: SendRequest, listener: HeadListener): Exchange {
  const { origin, pathname, search } = new URL(url);
  const exchange = new PushedExchange(listener, unpackedByNode);
  const dispatch = new Dispatch(exchange, request.connectMs);
  exchange.carriedBy(dispatch);
  const { headers, body } = request;
  agentFor(request).dispatch({ origin, path: pathname + search, method: "POST", headers, body }, dispatch);
  dispatch.sent();
  return exchange;
}

/** One request on its way through a dispatcher. */
class Dispatch implements Dispatcher.DispatchHandler, Carrier {
  readonly #exchange: PushedExchange;
  #controller: Dispatcher.DispatchController | undefined;
  #stopConnecting: ReturnType<typeof setTimeout> | undefined;
  #sending = true;
  #refusal: Error | undefined;
  #begun = false;
  #abandoned = false;

  constructor(exchange: PushedExchange, connectMs: number) {
    this.#exchange = exchange;
    if (connectMs > 0) this.#stopConnecting = setTimeout(() => this.#tooLate(connectMs), connectMs);
  }

  /** Throws what the dispatcher has refused to send: nobody's fault but our own. */
  sent(): void {
    this.#sending = false;
    if (this.#refusal !== undefined) throw this.#refusal;
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  abandon(): void {
    this.#abandoned = true;
    clearTimeout(this.#stopConnecting);
    this.#controller?.abort(new Error("Closed from here"));
  }

  #tooLate(connectMs: number): void {
    this.abandon();
    this.#exchange.break(new ConnectTimeout(`no connection within ${connectMs} ms`));
  }

  // -- undici's calls

  /** A connection is there, and nothing has been sent on it. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    clearTimeout(this.#stopConnecting);
    this.#controller = controller;
    if (this.#abandoned) controller.abort(new Error("Closed from here"));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#abandoned || (status < 200 && status !== 101)) return;
    this.#begun = true;
    this.#exchange.begin({ status, headers: new RecordHeaders(headers) });
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    if (!this.#abandoned) this.#exchange.receive(bytes);
  }

  onResponseEnd(): void {
    if (!this.#abandoned && this.#begun) this.#exchange.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#stopConnecting);
    if (this.#sending && error instanceof errors.InvalidArgumentError) this.#refusal = error;
    else if (this.#sending) queueMicrotask(() => this.#break(error));
    else this.#break(error);
  }

  #break(error: Error): void {
    if (!this.#abandoned) this.#exchange.break(error);
  }
}
