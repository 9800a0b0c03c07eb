import type { Clock } from "../runtime/clock.ts";
import type { RequestRecord } from "./record.ts";
import { spanCount, spansOf } from "./spans.ts";

export type ExportFetch = (url: string, init: RequestInit) => Promise<Response>;

export interface SpanExporterOptions {
  /** Base address of the collector; `/v1/traces` is appended. */
  url: string;
  fetch: ExportFetch;
  clock: Clock;
  version: string;
  /** Told once when exports begin to fail, and once when they work again; must not throw. `reason`: a status or an error's name. */
  onChange?: (state: "failing" | "working", reason: string) => void;
  /** Records waiting at most; beyond it new ones are dropped and counted. */
  queue?: number;
  /** Records per export. */
  batch?: number;
  /** Milliseconds from the first waiting record to its export. */
  intervalMs?: number;
  /** Milliseconds one export may take. */
  timeoutMs?: number;
  /** No timer of its own, and each `flush` sends by itself what it finds: a promise may not be shared between requests (Workers). */
  perRequest?: boolean;
}

/**
 * Spans to an OpenTelemetry collector by OTLP/HTTP with JSON. `enqueue` costs the request one push; spans are built and sent off its
 * path, when `batch` records wait or `intervalMs` have passed (runtimes without timers between requests call `flush()`). One export
 * runs at a time. A collector that is slow, gone or refuses costs spans, which are counted, and nothing else: there is no retry, since
 * what waits behind it would be dropped instead.
 */
export class SpanExporter {
  exported = 0;
  dropped = 0;
  readonly #options: Required<Omit<SpanExporterOptions, "onChange">>;
  readonly #onChange: (state: "failing" | "working", reason: string) => void;
  readonly #endpoint: string;
  #queue: RequestRecord[] = [];
  #cancelTimer: (() => void) | undefined;
  #due = false;
  #running: Promise<void> | undefined;
  #failing = false;

  constructor(options: SpanExporterOptions) {
    this.#options = { queue: 2048, batch: 256, intervalMs: 2000, timeoutMs: 10_000, perRequest: false, ...options };
    this.#onChange = options.onChange ?? ignore;
    this.#endpoint = `${options.url.replace(/\/+$/, "")}/v1/traces`;
  }

  /**
   * A record that has ended, tails included; the caller asks `record.sampled` first. One whose tail is opened after all (the two
   * ends may come in either order within a tick) is passed over, and comes again when that tail is closed.
   */
  enqueue(record: RequestRecord): void {
    if (record.spansQueued) return;
    if (this.#queue.length >= this.#options.queue) {
      this.dropped += spanCount(record);
      return;
    }
    record.spansQueued = true;
    this.#queue.push(record);
    if (this.#options.perRequest) return;
    const full = this.#queue.length >= this.#options.batch;
    if (this.#cancelTimer === undefined || (full && !this.#due)) this.#arm(full);
  }

  /** Sends all that waits, batch after batch; resolves when it is sent or lost. Never rejects. */
  flush(): Promise<void> {
    if (this.#options.perRequest) return this.#queue.length === 0 ? Promise.resolve() : this.#drain();
    this.#disarm();
    // Only with something to send does #drain give way before it clears #running again.
    if (this.#running === undefined && this.#queue.length > 0) this.#running = this.#drain();
    return this.#running ?? Promise.resolve();
  }

  #arm(now: boolean): void {
    this.#disarm();
    this.#due = now;
    // Even a full batch waits for the clock's next tick: building its spans belongs to no request.
    this.#cancelTimer = this.#options.clock.after(now ? 0 : this.#options.intervalMs, () => {
      void this.flush();
    });
  }

  #disarm(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#due = false;
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const records = this.#queue.slice(0, this.#options.batch);
      this.#queue = this.#queue.slice(records.length);
      for (const record of records) record.spansQueued = false;
      await this.#send(records.filter(isComplete));
    }
    this.#running = undefined;
  }

  async #send(records: readonly RequestRecord[]): Promise<void> {
    const spans = records.flatMap(spansOf);
    if (spans.length === 0) return;
    // Called as a plain function: some runtimes refuse a platform `fetch` whose `this` is another object.
    const { fetch } = this.#options;
    const controller = new AbortController();
    const cancelTimeout = this.#options.clock.after(this.#options.timeoutMs, () => {
      controller.abort(new DOMException("The collector did not answer in time", "TimeoutError"));
    });
    try {
      const response = await fetch(this.#endpoint, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(this.#payload(spans)),
        redirect: "manual",
        signal: controller.signal,
      });
      const text = await response.text();
      if (response.status !== 200) throw new CollectorRefused(response.status);
      const rejected = rejectedSpans(text, spans.length);
      this.dropped += rejected;
      this.exported += spans.length - rejected;
      this.#note(false, "200");
    } catch (error) {
      this.dropped += spans.length;
      this.#note(
        true,
        error instanceof CollectorRefused ? String(error.status) : error instanceof Error ? error.name : "Error",
      );
    } finally {
      cancelTimeout();
    }
  }

  #note(failing: boolean, reason: string): void {
    if (failing === this.#failing) return;
    this.#failing = failing;
    this.#onChange(failing ? "failing" : "working", reason);
  }

  #payload(spans: ReturnType<typeof spansOf>): unknown {
    const attributes = [
      { key: "service.name", value: { stringValue: "prefill-router" } },
      { key: "service.version", value: { stringValue: this.#options.version } },
    ];
    const scope = { name: "prefill-router", version: this.#options.version };
    return { resourceSpans: [{ resource: { attributes }, scopeSpans: [{ scope, spans }] }] };
  }
}

class CollectorRefused extends Error {
  override readonly name = "CollectorRefused";
  readonly status: number;
  constructor(status: number) {
    super(`The collector answered with status ${status}`);
    this.status = status;
  }
}

/** `partialSuccess.rejectedSpans` of a 200 (OTLP specification, partial success); a number or its decimal text. */
function rejectedSpans(text: string, sent: number): number {
  try {
    const answer = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: number | string } } | null;
    const rejected = Number(answer?.partialSuccess?.rejectedSpans ?? 0);
    return rejected > 0 ? Math.min(rejected, sent) : 0;
  } catch {
    return 0; // collectors also answer with an empty body
  }
}

function isComplete(record: RequestRecord): boolean {
  return record.openDrains === 0;
}

function ignore(): void {}
