import type { Exchange, HeadListener } from "../../legs/exchange.ts";
import type { SendRequest } from "../../legs/transport.ts";
import { unpackedStream } from "../bun-unpack.ts";
import { PushedExchange } from "../pushed-exchange.ts";
import { Connection } from "./connection.ts";
import { parserWorks } from "./head-parser.ts";
import { IdleConnections } from "./idle-connections.ts";
import { targetOf } from "./origin.ts";
import { requestText } from "./request-text.ts";

const idle = new IdleConnections();
let works: boolean | undefined;

/**
 * Posts over Bun's own sockets, in the thread that runs JavaScript, read by the runtime's own HTTP parser. Bun's `fetch` has a thread for
 * HTTP: each request wakes it twice and is woken by it, each chunk becomes a step of a stream.
 *
 * Plain HTTP only (TLS is `fetch`'s business), only where the build has that parser, and not to a host on which connects are given up again
 * and again (`fetch` can take one back): gives `undefined` otherwise. A request is never sent twice: on a kept-alive connection that the
 * engine closes in this moment it fails, as a reset before any byte of an answer.
 */
export function sendOverSocket(url: string, request: SendRequest, listener: HeadListener): Exchange | undefined {
  const target = targetOf(url);
  works ??= parserWorks();
  if (target === undefined || !works) return undefined;
  const willKeep = !request.fresh && idle.has(target.host);
  // First, since it may throw: a connection that was taken has to be used.
  const text = requestText(target, request, willKeep);
  const kept = willKeep ? idle.take(target.host) : undefined;
  if (kept === undefined && idle.tooManyAbandoned(target.host)) return undefined;
  const exchange = new PushedExchange(listener, unpackedStream);
  if (kept === undefined) Connection.open(target, idle, text, exchange, !request.fresh, request.connectMs);
  else kept.carry(text, exchange);
  return exchange;
}
