import { SharedHeaders } from "./shared-headers.ts";

/**
 * Which of a client's headers reach an engine (contract section 7): all, less hop-by-hop ones (RFC 9110 section 7.6.1), those named in
 * `Connection`, those that describe a body or a host that are no longer the client's, and hints that would let a client steer an engine's
 * own routing.
 */
const STAYS_BEHIND = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "trailers",
  "transfer-encoding",
  "upgrade",
  "host",
  "content-length",
  "content-encoding",
  "content-type",
  "accept-encoding",
  "cookie",
  "expect",
  "content-md5",
  "digest",
  "content-digest",
  "repr-digest",
  "forwarded",
  "x-request-id",
  // What of a trace goes on is decided once (`legTrace`); an invalid one goes nowhere.
  "traceparent",
  "tracestate",
  "baggage",
  "x-data-parallel-rank",
]);
const STAYS_BEHIND_PREFIX = /^x-(?:forwarded|override|prefiller|dynamo|smg|router)-/;

export interface AuthorizationRule {
  /** The router has checked the client's key, so no key of the client goes on. */
  clientChecked: boolean;
}

/** Headers for both legs but for those that differ per leg. Made once per request. */
export function outgoingHeaders(client: Headers, rule: AuthorizationRule): SharedHeaders {
  const pairs = ["content-type", "application/json", "accept-encoding", "identity"];
  const named = client.get("connection");
  const hop = named === null || named === "keep-alive" || named === "close" ? undefined : namesOf(named);
  client.forEach((value, name) => {
    if (STAYS_BEHIND.has(name)) return;
    if (name.charCodeAt(0) === 120 /* x */ && STAYS_BEHIND_PREFIX.test(name)) return;
    if (rule.clientChecked && (name === "authorization" || name === "x-api-key" || name === "api-key")) return;
    if (hop?.has(name)) return;
    pairs.push(name, value);
  });
  return new SharedHeaders(pairs);
}

function namesOf(list: string): Set<string> {
  return new Set(list.split(",").map((name) => name.trim().toLowerCase()));
}
