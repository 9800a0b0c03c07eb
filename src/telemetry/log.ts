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
   * `prompt` is written only with `prompts`. A prefill tail that is still being read shows as `prefill_open`; its end is an event of its own.
   */
  request(record: RequestRecord, prompt?: string): void {
    const level = levelOf(record);
    if (!this.enabled(level)) return;
    // Put together by hand: see bench/telemetry.ts for what JSON.stringify of the same fields costs.
    let line = this.#begin(level, "request");
    line +=
      text("id", record.id) +
      text("trace_id", record.traceId) +
      text("route", record.route) +
      text("model", record.model);
    line += record.streaming ? ',"stream":true' : ',"stream":false';
    line += text("client", record.clientKey) + text("outcome", record.outcome) + count("status", record.status);
    if (record.code !== "") line += text("code", record.code) + text("stage", record.stage);
    line +=
      text("path", record.path) +
      text("pool", record.pool) +
      text("prefill", record.prefill) +
      text("decode", record.decode);
    line +=
      count("attempts", record.attempts) + sinceStart("duration_ms", record, record.finishedAt) + this.#legs(record);
    line += count("prompt_tokens", record.promptTokens) + count("cached_tokens", record.cachedTokens);
    line += count("completion_tokens", record.completionTokens) + count("bytes_in", record.bytesIn);
    line += count("bytes_out", record.bytesOut) + count("chunks", record.chunks);
    if (record.errorFrame) line += ',"error_frame":true';
    if (record.lateFailure !== "") line += lateFailure(record);
    if (record.handoffReleased) line += ',"handoff_released":true';
    if (this.#options.prompts && prompt !== undefined) line += text("prompt", this.#options.mask(prompt));
    this.#write(`${line}}`);
  }

  #legs(record: RequestRecord): string {
    let line = sinceStart("queue_ms", record, record.admittedAt);
    line += span("prefill_ms", record.prefillSentAt, record.prefillDoneAt);
    if (record.decodeSentAt >= record.prefillDoneAt)
      line += span("handoff_ms", record.prefillDoneAt, record.decodeSentAt);
    line += span("decode_headers_ms", record.decodeSentAt, record.decodeHeadersAt);
    line +=
      sinceStart("first_token_ms", record, record.committedAt) +
      span("decode_ms", record.decodeSentAt, record.finishedAt);
    if (record.settleWaitMs > 0) line += `,"settle_wait_ms":${milliseconds(record.settleWaitMs)}`;
    if (record.openDrains > 0) line += ',"prefill_open":true';
    return line;
  }

  /** The end of a prefill tail that outlived its response: what the request's own line could not tell yet. */
  tailEnded(record: RequestRecord, cut: boolean): void {
    const level = record.lateFailure === "" && !cut ? "info" : "warn";
    if (!this.enabled(level)) return;
    let line = this.#begin(level, "prefill_tail_ended");
    line +=
      text("id", record.id) +
      text("trace_id", record.traceId) +
      text("model", record.model) +
      text("prefill", record.prefill);
    line += span("prefill_ms", record.prefillSentAt, record.prefillDoneAt);
    line += span("outlived_ms", record.finishedAt, record.tailEndedAt);
    if (cut) line += ',"cut":true';
    if (record.lateFailure !== "") line += lateFailure(record);
    this.#write(`${line}}`);
  }

  /** Anything else worth a line: `name` in snake_case, e.g. `breaker_changed`; fields of any type. */
  event(level: EventLevel, name: string, fields: Readonly<Record<string, unknown>> = {}): void {
    if (!this.enabled(level)) return;
    let line = this.#begin(level, name);
    for (const key of Object.keys(fields)) {
      const safe = JSON.stringify(redact(key, fields[key], this.#options.prompts, this.#options.mask));
      if (safe !== undefined) line += `,${JSON.stringify(key)}:${safe}`;
    }
    this.#write(`${line}}`);
  }

  /** A sink that fails loses the line, never the request it tells of. */
  #write(line: string): void {
    try {
      this.#sink(line);
    } catch {
      this.lost += 1;
    }
  }

  #begin(level: EventLevel, name: string): string {
    return `{"ts":"${this.#timestamps.format(this.#options.wallNow())}","level":"${level}","event":${quote(name)}`;
  }
}

/** Client faults and clients that leave are daily life (info); what failed in the fleet is a warning, a fault of ours an error. */
function levelOf(record: RequestRecord): EventLevel {
  if (record.outcome === "internal") return "error";
  return record.status >= 500 || record.errorFrame || record.lateFailure !== "" ? "warn" : "info";
}

function lateFailure(record: RequestRecord): string {
  return text("late_failure", record.lateFailure) + text("late_failure_when", record.lateFailureWhen);
}

function text(name: string, value: string): string {
  return value === "" ? "" : `,"${name}":${quote(value)}`;
}

function count(name: string, value: number): string {
  return value > 0 ? `,"${name}":${value}` : "";
}

function span(name: string, from: number, to: number): string {
  return from > 0 && to >= from ? `,"${name}":${milliseconds(to - from)}` : "";
}

/** `t0` may be 0 and has happened nevertheless. */
function sinceStart(name: string, record: RequestRecord, to: number): string {
  return to > 0 && to >= record.t0 ? `,"${name}":${milliseconds(to - record.t0)}` : "";
}

/** Hundredths are enough, and printing two integers is several times cheaper than printing one fraction. */
function milliseconds(value: number): string {
  const hundredths = Math.round(value * 100);
  const rest = hundredths % 100;
  const whole = (hundredths - rest) / 100;
  if (rest === 0) return String(whole);
  return rest < 10 ? `${whole}.0${rest}` : `${whole}.${rest}`;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: exactly what JSON strings must escape, and lone surrogates
const UNSAFE = /["\\\u0000-\u001f\ud800-\udfff]/;

function quote(value: string): string {
  return UNSAFE.test(value) ? JSON.stringify(value) : `"${value}"`;
}
