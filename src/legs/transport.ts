import type { FaultKind } from "../errors/failure.ts";
import type { Pieces } from "../json/pieces.ts";
import type { Exchange, HeadListener } from "./exchange.ts";
import type { SharedHeaders } from "./shared-headers.ts";

/** What goes to an engine. `url` is complete; redirects are not followed, nothing is decompressed that was not asked for. */
export interface TransportRequest {
  method: "POST" | "GET";
  headers: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  signal: AbortSignal;
  /** On a connection of its own: a kept-alive one has just broken under this request, and others may be as stale. */
  fresh?: boolean;
}

/** What a leg posts. */
export interface SendRequest {
  /** Of this leg alone; they go before those of the same name in `shared`. */
  headers: Record<string, string>;
  /** Of all legs of the request; whoever sends it sends both (`shared.with(headers)`, or `shared.linesBeside(headers)` and `headers`). */
  shared?: SharedHeaders | undefined;
  /** JSON. */
  body: Pieces;
  fresh: boolean;
  /** For the connection to be open; 0 = no limit. */
  connectMs: number;
}

/** How requests reach engines: one adapter per runtime, injectable for service bindings and tests. */
export interface Transport {
  fetch(url: string, request: TransportRequest): Promise<Response>;
  /**
   * A leg's way to an engine where the runtime has a better one than `fetch`: it bounds the connect itself (a `ConnectTimeout`). Gives
   * `undefined` for a url it does not take.
   */
  send?(url: string, request: SendRequest, listener: HeadListener): Exchange | undefined;
  /** Opens one bare TCP connection to the url's origin and closes it again. Absent where the runtime has no TCP. */
  connects?(url: string, ms: number): Promise<boolean>;
}

/** No connection within `connectMs`. */
export class ConnectTimeout extends Error {
  override name = "ConnectTimeout";
}

const REFUSED =
  /ECONNREFUSED|ConnectionRefused|connection refused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|failed to lookup address|dns error/i;

/**
 * A transport error before headers → how sure we are that nothing was sent. Runtimes differ (Bun and Node have codes, Deno only the
 * cause's text, workerd one text for both): where it can't be told, the request counts as sent.
 */
export function faultBeforeHeaders(error: unknown): FaultKind {
  if (error instanceof ConnectTimeout) return "connect";
  for (let e = error, depth = 0; e instanceof Error && depth < 4; e = e.cause, depth++) {
    const code = (e as { code?: unknown }).code;
    if (typeof code === "string" && REFUSED.test(code)) return "refused";
    if (REFUSED.test(e.message)) return "refused";
    if (e instanceof AggregateError)
      for (const inner of e.errors) if (faultBeforeHeaders(inner) === "refused") return "refused";
  }
  return "reset";
}
