/** What the driver, the engines' process and the load generator's process tell each other, one JSON value a line. */

export type Role = "prefill" | "decode" | "aggregated";
export type Dialect = "sglang" | "vllm";

export interface EngineGroup {
  name: string;
  dialect: Dialect;
  role: Role;
  ports: readonly number[];
}

/** How answers look until the next shape. */
export interface Shape {
  tokens: number;
  /** Milliseconds between two events; 0 is as fast as the socket takes them. */
  itlMs: number;
  /** Bytes of text in one event. */
  chunkBytes: number;
}

/**
 * What one request asks its engines to do; one letter in the prompt, since some routers drop fields they do not know.
 * "p": answer by the shape. "f": prefill fails late, decode streams until it is closed. "h": decode streams until it is closed (the client will hang up)
 * and prefill, where it runs beside decode, does not answer. "i": one token, then silence until the driver says `finish`.
 */
export type Kind = "p" | "f" | "h" | "i";

/** A request is marked in its prompt: `@@`, its kind, eleven digits. */
export const MARK = "@@";
export const MARK_LENGTH = 14;

export function markOf(kind: Kind, number: number): string {
  return `${MARK}${kind}${String(number).padStart(11, "0")}`;
}

/** When prefill of an "f" request fails, counted from its arrival: the range that numbers are spread over. */
export const FAIL_AFTER_MS = { least: 60, most: 260 };
/** Pace of the streams of "f" and "h" requests, and how long they last if nobody ends them. */
export const OPEN_STREAM = { itlMs: 10, lastMs: 8_000 };

export interface EngineStats {
  requests: number;
  /** Requests that lacked what their engine's role needs, each answered with 400. */
  rejected: number;
  lastError: string;
  cancelled: number;
  inFlight: number;
  maxInFlight: number;
}

/** [number of the request, moment in wall milliseconds]. */
export type Moment = [request: number, at: number];

export interface Journal {
  /** When prefill's failing bytes were written. */
  failed: Moment[];
  /** "h" requests that reached a prefill and a decode engine. */
  prefillOpened: number[];
  decodeOpened: number[];
  /** When a prefill and a decode connection of such a request were closed by the router. */
  prefillClosed: Moment[];
  decodeClosed: Moment[];
}

export type EngineCommand =
  | { do: "shape"; shape: Shape }
  | { do: "stats"; group: string }
  | { do: "journal" }
  | { do: "finish" };

export interface LoadPlan {
  host: string;
  port: number;
  stream: boolean;
  clients: number;
  /** Requests in all; 0: as many as fit into the duration. */
  requests: number;
  durationMs: number;
  /** The clients start spread over this time. */
  rampMs: number;
  timeoutMs: number;
  promptBytes: number;
  maxTokens: number;
  /** Events before `[DONE]` of a whole stream; 0 does not check. */
  wantEvents: number;
  headers?: string;
  /** Each client's connection is new for every request. */
  close?: boolean;
  /** Further clients of special kinds, beside the plain ones. */
  extra?: { kind: Exclude<Kind, "p">; clients: number };
  /** GET this path once a second meanwhile. */
  scrape?: { port: number; path: string };
}

export interface LoadResult {
  seconds: number;
  requests: number;
  events: number;
  bytes: number;
  dials: number;
  errors: number;
  failures: Record<string, number>;
  firstUs: Quantiles;
  wholeUs: Quantiles;
  scrapeUs: Quantiles;
  scrapes: number;
  /** When an "f" request's failure was told by an error frame, or by an error status; when an "h" client hung up. */
  frames: Moment[];
  statuses: Moment[];
  hangUps: Moment[];
  /** "f" and "i" requests that ended otherwise. */
  otherEnds: Record<string, number>;
  openStreams: number;
  cpuSeconds: number;
}

export interface Quantiles {
  p50: number;
  p90: number;
  p99: number;
  count: number;
}

export function quantilesOf(samples: readonly number[]): Quantiles {
  const sorted = Float64Array.from(samples).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), count: sorted.length };
}
