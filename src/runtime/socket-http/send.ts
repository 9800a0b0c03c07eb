import type { Exchange, HeadListener } from "../../legs/exchange.ts";
import type { SendRequest, Transport } from "../../legs/transport.ts";
import type { Unpack } from "../unpack.ts";
import { Connection } from "./connection.ts";
import { PushedExchange } from "./exchange.ts";
import { parserWorks } from "./head-parser.ts";
import { IdleConnections } from "./idle-connections.ts";
import { targetOf } from "./origin.ts";
import { requestText } from "./request-text.ts";
import type { Dialer } from "./tcp.ts";

/**
 * A way to post over a runtime's own sockets; heads of answers are read by the runtime's own HTTP parser. Set beside it, Bun's `fetch` has
 * a thread for HTTP, which each request wakes twice and is woken by, and each chunk is a step of a stream; Node's costs three times as much.
 *
 * Plain HTTP only (TLS is `fetch`'s business), only where there is that parser, and not to a host on which connects are given up again
 * and again and cannot be taken back: gives `undefined` otherwise. A request is never sent twice: on a kept-alive connection that the
 * engine closes in this moment it fails, as a reset before any byte of an answer.
 */
export function sendOver(dialer: Dialer, unpack: Unpack): NonNullable<Transport["send"]> {
  const idle = new IdleConnections();
  let works: boolean | undefined;

  return function sendOverSocket(url: string, request: SendRequest, listener: HeadListener): Exchange | undefined {
    const target = targetOf(url);
    works ??= parserWorks();
    if (target === undefined || !works) return undefined;
    const willKeep = !request.fresh && idle.has(target.host);
    // First, since it may throw: a connection that was taken has to be used.
    const text = requestText(target, request, willKeep && dialer.copies);
    const kept = willKeep ? idle.take(target.host) : undefined;
    if (kept === undefined && idle.tooManyAbandoned(target.host)) return undefined;
    const exchange = new PushedExchange(listener, unpack);
    if (kept === undefined) Connection.open(dialer, target, idle, text, exchange, !request.fresh, request.connectMs);
    else kept.carry(text, exchange);
    return exchange;
  };
}
