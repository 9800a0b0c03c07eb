import type { RequestRecord } from "./record.ts";
import { redact } from "./redact.ts";
import { Timestamps } from "./timestamps.ts";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type EventLevel = Exclude<LogLevel, "silent">;

export interface LogOptions {
  level: LogLevel;
  /** Opens prompts, answers and engines' words to the log. Credentials stay masked whatever is set here. */
  prompts: boolean;
  /** Time of day, milliseconds since 1970. */
  wallNow: () => number;
  /** Configured keys and user info out of a text (mask.ts). */
  mask: (text: string) => string;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 };

/**
 * Structured log, one JSON object a line: `ts`, `level`, `event`, then fields. Lines go to `sink` without their line feed.
 * At no level does a line hold a credential or an address with user info, and a prompt only when `prompts` is set
 * (acceptance: secrets in logs). Fields of `event` are made safe by name and by value, see redact.ts.
 */
export class Log {
  /** Lines the sink threw at. */
  lost = 0;
  readonly #sink: (line: string) => void;
  readonly #options: LogOptions;
  readonly #rank: number;
  readonly #timestamps = new Timestamps();

  constructor(sink: (line: string) => void, options: LogOptions) {
    this.#sink = sink;
    this.#options = options;
    this.#rank = RANK[options.level];
  }

  /** Whether lines of this level are written; ask before gathering costly fields. */
  enabled(level: EventLevel): boolean {
    return RANK[level] >= this.#rank;
  }

  /**
   * The one line of a finished request, with the times of both legs in milliseconds. Fields that did not happen are left out.
   * `prompt` is written only with `prompts`. A prefill tail that is still being read shows as `prefill_open`; its end is a line of its own.
   */
  request(record: RequestRecord, prompt?: string): void {
    const level = levelOf(record);
    if (!this.enabled(level)) return;
    // One literal and one JSON.stringify: 0.6 µs a line in Bun 1.4; text put together piece by piece took 1.2 µs (bench/telemetry.ts).
    this.#write({
      ts: this.#timestamps.format(this.#options.wallNow()),
      level,
      event: "request",
      id: record.id,
      trace_id: record.traceId || undefined,
      route: record.route,
      model: record.model,
      stream: record.streaming,
      client: record.clientKey || undefined,
      outcome: record.outcome,
      status: record.status,
      code: record.code || undefined,
      stage: record.stage || undefined,
      path: record.path || undefined,
      pool: record.pool || undefined,
      prefill: record.prefill || undefined,
      decode: record.decode || undefined,
      attempts: record.attempts || undefined,
      duration_ms: sinceStart(record, record.finishedAt),
      queue_ms: sinceStart(record, record.admittedAt),
      prefill_ms: between(record.prefillSentAt, record.prefillDoneAt),
      handoff_ms: between(record.prefillDoneAt, record.decodeSentAt),
      decode_headers_ms: between(record.decodeSentAt, record.decodeHeadersAt),
      first_token_ms: sinceStart(record, record.committedAt),
      decode_ms: between(record.decodeSentAt, record.finishedAt),
      settle_wait_ms: record.settleWaitMs > 0 ? hundredths(record.settleWaitMs) : undefined,
      prefill_open: record.openDrains > 0 || undefined,
      prompt_tokens: record.promptTokens || undefined,
      prompt_tokens_estimate: record.promptTokens > 0 ? undefined : record.promptEstimate || undefined,
      cached_tokens: record.cachedTokens || undefined,
      completion_tokens: record.completionTokens || undefined,
      bytes_in: record.bytesIn || undefined,
      bytes_out: record.bytesOut || undefined,
      chunks: record.chunks || undefined,
      error_frame: record.errorFrame || undefined,
      late_failure: record.lateFailure || undefined,
      late_failure_when: record.lateFailureWhen || undefined,
      handoff_released: record.handoffReleased || undefined,
      prompt: this.#options.prompts && prompt !== undefined ? this.#options.mask(prompt) : undefined,
    });
  }

  /** The end of a prefill tail that outlived its response: what the request's own line could not tell yet. */
  tailEnded(record: RequestRecord, cut: boolean): void {
    const level = record.lateFailure === "" && !cut ? "info" : "warn";
    if (!this.enabled(level)) return;
    this.#write({
      ts: this.#timestamps.format(this.#options.wallNow()),
      level,
      event: "prefill_tail_ended",
      id: record.id,
      trace_id: record.traceId || undefined,
      model: record.model,
      prefill: record.prefill || undefined,
      prefill_ms: between(record.prefillSentAt, record.prefillDoneAt),
      outlived_ms: between(record.finishedAt, record.tailEndedAt),
      cut: cut || undefined,
      late_failure: record.lateFailure || undefined,
      late_failure_when: record.lateFailureWhen || undefined,
    });
  }

  /** Anything else worth a line: `name` in snake_case, e.g. `breaker_changed`; fields of any type, made safe. */
  event(level: EventLevel, name: string, fields: Readonly<Record<string, unknown>> = {}): void {
    if (!this.enabled(level)) return;
    const { prompts, mask } = this.#options;
    const line: Record<string, unknown> = {};
    line.ts = this.#timestamps.format(this.#options.wallNow());
    line.level = level;
    line.event = name;
    // A field may not take the place of the line's own members.
    for (const key of Object.keys(fields)) {
      line[Object.hasOwn(line, key) ? `field_${key}` : mask(key)] = redact(key, fields[key], prompts, mask);
    }
    this.#write(line);
  }

  /** A sink that fails loses the line, never the request it tells of. */
  #write(line: Readonly<Record<string, unknown>>): void {
    try {
      this.#sink(JSON.stringify(line));
    } catch {
      this.lost += 1;
    }
  }
}

/** Client faults and clients that leave are daily life (info); what failed in the fleet is a warning, a fault of ours an error. */
function levelOf(record: RequestRecord): EventLevel {
  if (record.outcome === "internal") return "error";
  return record.status >= 500 || record.errorFrame || record.lateFailure !== "" ? "warn" : "info";
}

/** `t0` may be 0 and has happened nevertheless. */
function sinceStart(record: RequestRecord, to: number): number | undefined {
  return to > 0 && to >= record.t0 ? hundredths(to - record.t0) : undefined;
}

function between(from: number, to: number): number | undefined {
  return from > 0 && to >= from ? hundredths(to - from) : undefined;
}

function hundredths(milliseconds: number): number {
  return Math.round(milliseconds * 100) / 100;
}
