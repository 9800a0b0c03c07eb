import type { Clock } from "../runtime/clock.ts";
import { FleetChanges } from "./changes.ts";
import type { FleetSnapshot } from "./fleet.ts";
import { newSpanId } from "./ids.ts";
import { Log, type LogLevel } from "./log.ts";
import { createMask, maskAddresses } from "./mask.ts";
import { Metrics } from "./metrics.ts";
import { type ExportFetch, SpanExporter } from "./otlp.ts";
import { Recent } from "./recent.ts";
import { createRecord, type RequestRecord } from "./record.ts";
import { beginTrace } from "./trace-context.ts";

export interface TelemetryConfig {
  /** Configured model ids; any other name becomes "other". */
  models: readonly string[];
  log: { level: LogLevel; prompts: boolean };
  /** Base address of an OTLP/HTTP collector; absent = no spans. */
  otlpUrl?: string | undefined;
}

export interface TelemetryDeps {
  clock: Clock;
  /** No timer may outlive the request that set it (Workers): spans leave only when `flush` is called. */
  perRequest?: boolean;
  /** Time of day, milliseconds since 1970. */
  wallNow: () => number;
  /** Takes one log line without its line feed (`BatchedSink.push`). */
  sink: (line: string) => void;
  /** Reaches the collector; the platform's own unless given. */
  fetch?: ExportFetch;
  /** Configured keys, masked in everything that is logged and in engines' messages. */
  secrets: readonly string[];
  version: string;
}

/** All that watches requests, in one object: the router fills a record and tells of its end, the rest follows from it. */
export interface Telemetry {
  /** A record that counts as running until `done`. */
  newRecord(): RequestRecord;
  /** Fills trace ids, state and baggage of the record from the client's headers (see trace-context.ts for the rules). */
  beginTrace(record: RequestRecord, headers: Headers): void;
  /** An id for a leg's span, to be kept in the record and given to `legTraceparent`; "" when nobody would see the span. */
  newLegSpan(record: RequestRecord): string;
  /**
   * Once, when the response has ended and `finishedAt`, `status` and `outcome` are set: metrics, log line, dashboard, spans.
   * A second call for the same record does nothing. `prompt` is logged only with `log.prompts`.
   */
  done(record: RequestRecord, prompt?: string): void;
  /** A prefill tail goes to the background, before or in the same tick as `done`. Each needs one `drainClosed`. */
  drainOpened(record: RequestRecord): void;
  /**
   * A tail has ended, well or not; `tailEndedAt` is set, `prefillDoneAt` or `lateFailure` as it went. `cut`: the router ended it
   * (`tailMs`, `shutdownMs`). Before or after `done`: spans of a record leave when both have come.
   */
  drainClosed(record: RequestRecord, cut?: boolean): void;
  /** Configured keys out of a text, for engines' messages that go to clients (contract section 4). */
  mask(text: string): string;
  /** What a reload or an admin has added: models that may be labels, keys that must be masked. Nothing known is forgotten. */
  learn(news: { models: readonly string[]; secrets: readonly string[] }): void;
  /** Where worker and queue gauges come from; called once per scrape. */
  observeFleet(fleet: () => FleetSnapshot): void;
  /** Hands waiting spans to the collector; awaited at shutdown and, where no timers run between requests, in `waitUntil`. */
  flush(): Promise<void>;
  readonly metrics: Metrics;
  readonly log: Log;
  readonly recent: Recent;
  /** What has become of workers lately. */
  readonly changes: FleetChanges;
}

/** Builds the bundle. Starts nothing: no timer runs until the first span waits, and log lines go to `sink` as they are made. */
export function createTelemetry(config: TelemetryConfig, deps: TelemetryDeps): Telemetry {
  return new RouterTelemetry(config, deps);
}

class RouterTelemetry implements Telemetry {
  readonly metrics: Metrics;
  readonly log: Log;
  readonly recent = new Recent();
  readonly changes: FleetChanges;
  readonly beginTrace = beginTrace;
  readonly mask = (text: string): string => this.#mask(text);
  #mask: (text: string) => string;
  readonly #secrets: Set<string>;
  readonly #deps: TelemetryDeps;
  readonly #exporter: SpanExporter | undefined;

  constructor(config: TelemetryConfig, deps: TelemetryDeps) {
    this.#deps = deps;
    this.#secrets = new Set(deps.secrets);
    this.#mask = createMask(deps.secrets);
    this.changes = new FleetChanges(deps.wallNow);
    this.log = new Log(deps.sink, {
      ...config.log,
      wallNow: deps.wallNow,
      mask: (text) => maskAddresses(this.#mask(text)),
    });
    this.#exporter = config.otlpUrl === undefined ? undefined : this.#createExporter(config.otlpUrl, deps);
    this.metrics = new Metrics({
      models: config.models,
      version: deps.version,
      startedAt: deps.wallNow(),
      inProgress: () => this.recent.runningCount,
      spans: () => ({ exported: this.#exporter?.exported ?? 0, dropped: this.#exporter?.dropped ?? 0 }),
    });
  }

  #createExporter(url: string, deps: TelemetryDeps): SpanExporter {
    return new SpanExporter({
      url,
      fetch: deps.fetch ?? fetch,
      clock: deps.clock,
      perRequest: deps.perRequest ?? false,
      version: deps.version,
      onChange: (state, reason) =>
        this.log.event(state === "failing" ? "warn" : "info", `span_export_${state}`, { reason }),
    });
  }

  newRecord(): RequestRecord {
    const record = createRecord(this.#deps.clock.now(), this.#deps.wallNow());
    this.recent.add(record);
    return record;
  }

  newLegSpan(record: RequestRecord): string {
    return this.#exporter !== undefined && record.sampled ? newSpanId() : "";
  }

  done(record: RequestRecord, prompt?: string): void {
    if (record.done) return;
    record.done = true;
    this.recent.finish(record);
    this.metrics.requestDone(record);
    this.log.request(record, prompt);
    this.#export(record);
  }

  drainOpened(record: RequestRecord): void {
    record.openDrains += 1;
    this.metrics.drainOpened();
  }

  drainClosed(record: RequestRecord, cut = false): void {
    record.openDrains -= 1;
    this.metrics.drainClosed(record);
    if (cut) this.metrics.drainCut();
    if (!record.done) return;
    this.recent.tailEnded(record);
    this.log.tailEnded(record, cut);
    this.#export(record);
  }

  #export(record: RequestRecord): void {
    if (this.#exporter !== undefined && record.sampled && record.openDrains === 0) this.#exporter.enqueue(record);
  }

  learn({ models, secrets }: { models: readonly string[]; secrets: readonly string[] }): void {
    this.metrics.learnModels(models);
    const before = this.#secrets.size;
    for (const secret of secrets) this.#secrets.add(secret);
    if (this.#secrets.size > before) this.#mask = createMask([...this.#secrets]);
  }

  observeFleet(fleet: () => FleetSnapshot): void {
    this.metrics.observeFleet(fleet);
  }

  async flush(): Promise<void> {
    await this.#exporter?.flush();
  }
}
