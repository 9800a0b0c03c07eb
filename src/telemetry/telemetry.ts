import type { ErrorCode, FaultKind, Stage } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";
import type { BreakerState, FleetSnapshot, WorkerRole } from "./fleet.ts";
import type { RequestRecord } from "./record.ts";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** What metrics.ts's `class Metrics` offers. */
export interface MetricsPort {
  requestDone(record: RequestRecord): void;
  retry(reason: FaultKind, stage: Stage): void;
  breakerChange(worker: string, state: BreakerState): void;
  drainOpened(): void;
  drainClosed(record: RequestRecord): void;
  drainCut(): void;
  handoffReleased(): void;
  lateFailure(kind: FaultKind, when: "streaming" | "after_end"): void;
  errorFrame(): void;
  settleWait(ms: number): void;
  completedByRouter(reason: "cut" | "silence" | "no_end_mark"): void;
  droppedAfterFinish(): void;
  policyChoice(policy: string, role: WorkerRole, reason: string): void;
  prefixHit(tokens: number): void;
  probe(worker: string, result: "ok" | "failed" | "timeout" | "unreachable"): void;
  rejected(code: ErrorCode): void;
  render(): string;
}

/** What log.ts's `class Log` offers. */
export interface LogPort {
  request(record: RequestRecord, prompt?: string): void;
  event(level: Exclude<LogLevel, "silent">, name: string, fields?: Readonly<Record<string, unknown>>): void;
  enabled(level: LogLevel): boolean;
}

export interface TelemetryConfig {
  /** Configured model ids; any other name becomes "other". */
  models: readonly string[];
  log: { level: LogLevel; prompts: boolean };
  /** Base address of an OTLP/HTTP collector; absent = no spans. */
  otlpUrl?: string | undefined;
}

export interface TelemetryDeps {
  clock: Clock;
  /** Time of day, milliseconds since 1970. */
  wallNow: () => number;
  /** Takes one log line without its line feed. */
  sink: (line: string) => void;
  /** Needed with `otlpUrl`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** May be set later by `observe`, since the fleet is built after telemetry. */
  fleet?: () => FleetSnapshot;
  /** Configured keys, masked in everything that is logged. */
  secrets: readonly string[];
  version: string;
}

export interface Telemetry {
  /** A record that counts as running from now on. */
  newRecord(): RequestRecord;
  /** Once, when the response has ended (`finishedAt`, `status`, `outcome` are set). A second call does nothing. */
  done(record: RequestRecord, prompt?: string): void;
  /** A prefill tail goes to the background. Each needs one `drainClosed`. */
  drainOpened(record: RequestRecord): void;
  /** The tail has ended, well or not (`tailEndedAt`, `prefillDoneAt`, `lateFailure` are set); `cut`: by `tailMs` or `shutdownMs`. */
  drainClosed(record: RequestRecord, cut?: boolean): void;
  /** Fills trace ids, state and baggage of the record from the client's headers. */
  beginTrace(record: RequestRecord, headers: Headers): void;
  /** Configured keys masked, for engine messages that go to clients. */
  mask(text: string): string;
  readonly metrics: MetricsPort;
  readonly log: LogPort;
  readonly recent: { running(): Iterable<RequestRecord>; finished(): RequestRecord[] };
  /** Hands queued spans to the collector; at shutdown await it. */
  flush(): Promise<void>;
}
