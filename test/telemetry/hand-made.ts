import type { Clock } from "../../src/runtime/clock.ts";
import { createRecord, type RequestRecord } from "../../src/telemetry/record.ts";

/** A clock that stands still until it is told to go on. */
export class ManualClock implements Clock {
  time = 0;
  #entries: { at: number; fn: () => void }[] = [];

  now(): number {
    return this.time;
  }

  after(ms: number, fn: () => void): () => void {
    const entry = { at: this.time + ms, fn };
    this.#entries.push(entry);
    return () => {
      this.#entries = this.#entries.filter((other) => other !== entry);
    };
  }

  get waiting(): number {
    return this.#entries.length;
  }

  advance(ms: number): void {
    this.time += ms;
    const due = this.#entries.filter((entry) => entry.at <= this.time);
    this.#entries = this.#entries.filter((entry) => entry.at > this.time);
    for (const entry of due) entry.fn();
  }
}

export const WALL = Date.UTC(2026, 10, 30, 4, 22, 27, 123);
export const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
export const SPAN = "00f067aa0ba902b7";

/** A streamed answer over two legs, prefill first: 100 ms prefill, 2 ms hand-off, first token 20 ms later, 9 more gaps of 50 ms. */
export function streamedRecord(changes: Partial<RequestRecord> = {}): RequestRecord {
  return Object.assign(createRecord(1000, WALL), {
    id: "req-1",
    traceId: TRACE,
    spanId: SPAN,
    sampled: true,
    route: "/v1/chat/completions",
    model: "demo-model",
    streaming: true,
    pool: "default",
    path: "disaggregated",
    prefill: "p0",
    decode: "d0",
    admittedAt: 1001,
    prefillSentAt: 1002,
    prefillDoneAt: 1102,
    decodeSentAt: 1104,
    decodeHeadersAt: 1110,
    committedAt: 1124,
    finishedAt: 1574,
    status: 200,
    outcome: "success",
    attempts: 1,
    promptTokens: 120,
    cachedTokens: 64,
    completionTokens: 19,
    bytesIn: 500,
    bytesOut: 2000,
    chunks: 10,
    ...changes,
  } satisfies Partial<RequestRecord>);
}

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface Exposition {
  samples: Sample[];
  types: Map<string, string>;
}

const LINE = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/s;
const LABEL = /([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)/gy;

/** A strict reader of the Prometheus text format: throws at what a scraper would refuse. */
export function readExposition(text: string): Exposition {
  if (!text.endsWith("\n")) throw new Error("the last line has no line feed");
  const samples: Sample[] = [];
  const types = new Map<string, string>();
  const seen = new Set<string>();
  for (const line of text.slice(0, -1).split("\n")) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line);
    if (type !== null) {
      if (types.has(type[1]!)) throw new Error(`two TYPE lines for ${type[1]}`);
      types.set(type[1]!, type[2]!);
      continue;
    }
    if (/^# HELP \S+ .+$/.test(line)) continue;
    const match = LINE.exec(line);
    if (match === null) throw new Error(`unreadable line: ${line}`);
    const key = `${match[1]}{${match[2] ?? ""}}`;
    if (seen.has(key)) throw new Error(`twice: ${key}`);
    seen.add(key);
    samples.push({ name: match[1]!, labels: readLabels(match[2] ?? ""), value: readValue(match[3]!) });
  }
  return { samples, types };
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const match = LABEL.exec(text);
    if (match === null) throw new Error(`unreadable labels: ${text}`);
    labels[match[1]!] = match[2]!.replace(/\\(.)/g, (_, character: string) => (character === "n" ? "\n" : character));
  }
  return labels;
}

function readValue(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`no number: ${text}`);
  return value;
}

/** The one sample with these labels, or 0 when nothing was counted. */
export function sampleOf(page: string | Exposition, name: string, labels: Record<string, string> = {}): number {
  const { samples } = typeof page === "string" ? readExposition(page) : page;
  const found = samples.filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  return found.reduce((sum, sample) => sum + sample.value, 0);
}
