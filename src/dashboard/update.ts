import type { FleetChange } from "../telemetry/changes.ts";
import type { FailedAt } from "../telemetry/failed.ts";
import type { BreakerState, WorkerRole } from "../telemetry/fleet.ts";

/**
 * What the dashboard's stream carries: one JSON object an event. Everything but the first few members is there only when it has changed,
 * so a reader keeps what it had. The page's own code reads the same types.
 */
export interface Update {
  /** The router's time of day, milliseconds since 1970. */
  now: number;
  inProgress: number;
  /** Requests that wait for a place. */
  queued: number;
  shuttingDown: boolean;
  /** Keys of the requests that run; a row that says it runs and is not among them has been lost sight of. */
  running: number[];
  /** With the first event only. */
  router?: RouterFacts;
  models?: ModelCard[];
  /** New rows, and rows that have changed. */
  requests?: RequestRow[];
  minutes?: MinuteCounts;
  /** Newest first. */
  changes?: readonly FleetChange[];
}

export interface RouterFacts {
  version: string;
  /** Milliseconds since 1970; 0 = not known. */
  startedAt: number;
  /** An admin key is set. */
  keyed: boolean;
}

/** The last hour: `counts` by minute, oldest first; of each the requests, then failures by router, prefill, hand-off, decode, late. */
export interface MinuteCounts {
  /** Start of the first minute, milliseconds since 1970. */
  from: number;
  counts: number[][];
}

export interface ModelCard {
  id: string;
  aliases: readonly string[];
  ready: boolean;
  reason: string | null;
  pools: PoolCard[];
}

export interface PoolCard {
  name: string;
  engine: string;
  region: string | null;
  serving: boolean;
  policies: { prefill: string; decode: string };
  workers: WorkerCard[];
}

export interface WorkerCard {
  name: string;
  role: WorkerRole;
  usable: boolean;
  healthy: boolean;
  breaker: BreakerState;
  draining: boolean;
  requests: number;
  tokens: number;
  weight: number;
  /** Seconds for which it has asked to be left alone; 0 = it has not. */
  avoidedS: number;
  /** Since when it is unhealthy or its breaker open, milliseconds since 1970. */
  sickSince?: number | undefined;
  /** Only for those with the admin key: they may hold addresses. */
  url?: string | undefined;
  problems?: readonly string[] | undefined;
}

/** One request. Times are milliseconds after its start; absent = did not happen. */
export interface RequestRow {
  /** Ids are the client's to choose and need not be unique; this is. */
  key: number;
  id: string;
  /** Start, milliseconds since 1970. */
  at: number;
  route: string;
  model: string;
  stream: boolean;
  path: string;
  pool: string;
  prefill: string;
  decode: string;
  status: number;
  outcome: string;
  failed?: FailedAt | undefined;
  code?: string | undefined;
  stage?: string | undefined;
  attempts: number;
  /** How a prefill tail failed, and whether before or after decode's end. */
  late?: string | undefined;
  lateWhen?: string | undefined;
  errorFrame?: true | undefined;
  /** A prefill tail is still being read. */
  tailOpen?: true | undefined;
  handoffReleased?: true | undefined;
  admitted?: number | undefined;
  prefillSent?: number | undefined;
  prefillDone?: number | undefined;
  decodeSent?: number | undefined;
  decodeHeaders?: number | undefined;
  firstToken?: number | undefined;
  finished?: number | undefined;
  tailEnded?: number | undefined;
  settleWait?: number | undefined;
  /** Only where no engine has told how many there were. */
  promptEstimate?: number | undefined;
  promptTokens?: number | undefined;
  cachedTokens?: number | undefined;
  completionTokens?: number | undefined;
  bytesIn: number;
  bytesOut: number;
  trace?: string | undefined;
  /** Name of the client's key; only for those with the admin key. */
  client?: string | undefined;
}
