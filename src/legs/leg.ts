import type { EngineAnswer } from "../engines/dialect.ts";
import { Failure, type FaultKind } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";
import { Preamble } from "../sse/preamble.ts";
import { faultBeforeHeaders, type Transport } from "./transport.ts";

const latin1 = new TextDecoder("latin1");

/** Why a leg was closed by us; its own later errors are echoes and nobody's news. */
export type CloseReason = "client" | "other-leg" | "deadline" | "done" | "shutdown";

type Step = { done: boolean; value?: Uint8Array | undefined };

export interface LegOptions {
  role: "prefill" | "decode";
  /** The worker's name, for messages: never its address. */
  worker: string;
  url: string;
  headers: Record<string, string>;
  body: string;
  connectMs: number;
  /** Not on a kept-alive connection. */
  fresh?: boolean;
  transport: Transport;
  clock: Clock;
  /** Keeps reading that outlives the response alive. Absent where nothing does. */
  background?: { run(task: Promise<unknown>): void };
}

/**
 * One HTTP request to one engine, from dispatch to the end of its answer, with a controller of its own: closing one leg never closes the
 * other. Closing does both, abort and `reader.cancel()`, since runtimes differ in which of them closes the socket.
 */
export class Leg {
  readonly role: "prefill" | "decode";
  readonly worker: string;
  readonly #options: LegOptions;
  readonly #controller = new AbortController();
  #body: string;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #pending: Promise<unknown> | undefined;
  // For `pull`: who gets the next bytes, and the two callbacks that are made once per leg.
  #take: ((chunk: Uint8Array | undefined) => void) | undefined;
  #fail: ((failure: Failure) => void) | undefined;
  #onStep: ((step: Step) => void) | undefined;
  #onCut: ((error: unknown) => void) | undefined;
  #headersSeen = false;
  #stopConnectWatch: (() => void) | undefined;
  #refuse: ((failure: Failure) => void) | undefined;
  #closedListeners: (() => void)[] | undefined;
  closed: CloseReason | undefined;
  /** The answer's own end was seen: nothing is left to close. */
  ended = false;
  /** Decode has sent a whole event (or, buffered, prefill has ended): a deferred cancel may close the legs from here on. */
  firstEventSeen = false;

  constructor(options: LegOptions) {
    this.role = options.role;
    this.worker = options.worker;
    this.#options = options;
    this.#body = options.body;
    // Sent once; a copy of the prompt must not stay in memory for as long as its answer streams.
    options.body = "";
  }

  /** Sends the request; resolves with the answer's head. Rejects with a Failure (`prefill_unreachable`, `decode_unreachable`). */
  open(): Promise<Response> {
    const { url, headers, transport, connectMs, clock, fresh } = this.#options;
    const body = this.#body;
    this.#body = "";
    let sent: Promise<Response>;
    try {
      const { signal } = this.#controller;
      sent = transport.fetch(url, { method: "POST", headers, body, signal, fresh: fresh === true });
    } catch (error) {
      return Promise.reject(this.lost(faultBeforeHeaders(error), error));
    }
    this.#pending = sent;
    if (connectMs > 0 && transport.connects !== undefined) {
      this.#stopConnectWatch = clock.after(connectMs / 2, () => void this.#probeConnect());
    }
    // One promise with a way out of its own: `Promise.race` and an async function around it cost 5 µs a leg more.
    return new Promise((resolve, reject) => {
      this.#refuse = reject;
      sent.then(
        (response) => {
          this.#opened();
          resolve(response);
        },
        (error: unknown) => {
          this.#opened();
          reject(error instanceof Failure ? error : this.lost(faultBeforeHeaders(error), error));
        },
      );
    });
  }

  #opened(): void {
    this.#headersSeen = true;
    this.#refuse = undefined;
    this.#stopConnectWatch?.();
    this.#stopConnectWatch = undefined;
  }

  /** Takes the body's only reader; `read()` goes through the leg, so that a lingering close knows what is still pending. */
  attach(response: Response): void {
    this.#reader = response.body?.getReader();
  }

  /**
   * Reads the next bytes of the answer and calls back: `undefined` at its clean end, a Failure of kind `cut` when it is cut. For the chunks
   * of a stream, where each promise counts: there is none but the reader's own.
   */
  pull(take: (chunk: Uint8Array | undefined) => void, fail: (failure: Failure) => void): void {
    this.#take = take;
    this.#fail = fail;
    if (this.#reader === undefined) {
      this.ended = true;
      queueMicrotask(() => take(undefined));
      return;
    }
    const step = this.#reader.read();
    this.#pending = step;
    this.#onStep ??= ({ done, value }) => {
      if (done) this.#end();
      this.#take!(done ? undefined : value);
    };
    this.#onCut ??= (error) => {
      this.#end();
      this.#fail!(this.lost("cut", error));
    };
    step.then(this.#onStep, this.#onCut);
  }

  /** The next bytes of the answer, `undefined` at its clean end. Rejects with a Failure of kind `cut`. */
  read(): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => this.pull(resolve, reject));
  }

  /** The whole answer as text, at most `limit` bytes of it; what comes beyond is read and dropped, and so are comments before it. */
  async answer(limit: number): Promise<EngineAnswer> {
    const response = await this.open();
    const { text, truncated } = await this.text(response, limit, new Preamble());
    return { status: response.status, headers: response.headers, text, truncated };
  }

  /** The body as text, at most `limit` bytes of it, byte for byte but for a `preamble` that is taken off. */
  async text(response: Response, limit: number, preamble?: Preamble): Promise<{ text: string; truncated: boolean }> {
    const length = Number(response.headers.get("content-length") ?? Number.NaN);
    // Native and in one go when the length is known to be bearable: a reader loop costs several promises. A compressed answer, which nobody
    // has asked for, tells its length on the wire: a few kilobytes may unpack to gigabytes.
    if (length <= limit && !response.headers.has("content-encoding")) {
      try {
        const whole = response.text();
        // So that a lingering close waits for it too.
        this.#pending = whole;
        const text = await whole;
        this.#end();
        return { text, truncated: false };
      } catch (error) {
        this.#end();
        throw this.lost("cut", error);
      }
    }
    this.attach(response);
    const decoder = new TextDecoder();
    let text = "";
    let kept = 0;
    let truncated = false;
    for (let chunk = await this.read(); chunk !== undefined; chunk = await this.read()) {
      if (truncated) continue;
      const room = limit - kept;
      if (preamble?.over === false) {
        const own = preamble.strip(decoder.decode(chunk, { stream: true }));
        truncated = own.length > room;
        text = truncated ? own.slice(0, room) : own;
        kept = text.length;
        continue;
      }
      if (chunk.length > room) truncated = true;
      kept += Math.min(chunk.length, room);
      text += decoder.decode(chunk.length > room ? chunk.subarray(0, room) : chunk, { stream: true });
    }
    return { text: text + decoder.decode(), truncated };
  }

  /** Tears the leg down now. Idempotent. */
  close(reason: CloseReason): void {
    if (this.closed !== undefined || this.ended) return;
    this.closed = reason;
    this.#stopConnectWatch?.();
    this.#refuse?.(this.lost("reset", undefined));
    this.#controller.abort();
    // The pending read rejects with our own abort; the reader's cancel may too. Neither is news.
    this.#pending?.catch(ignore);
    this.#reader?.cancel().catch(ignore);
    this.#notifyClosed();
  }

  /**
   * Reads on without anybody listening until the answer's first bytes (`untilEnd`: its end), then closes. For pools whose engines cannot
   * bear an abort in mid-transfer (contract section 6, `deferred`). At most `ms`.
   */
  linger(reason: CloseReason, ms: number, untilEnd: boolean): void {
    if (this.closed !== undefined || this.ended) return;
    if (this.firstEventSeen && !untilEnd) {
      this.close(reason);
      return;
    }
    this.#lingerAtMost(ms, reason, untilEnd);
  }

  /** Reads the rest away after the answer's end mark, so that the connection can be used again; closes after `ms`. */
  finish(ms: number): void {
    if (this.closed !== undefined || this.ended) return;
    this.#lingerAtMost(ms, "done", true);
  }

  /** Calls `fn` once the leg is over, by its own end or by us; at once if it already is. */
  onClosed(fn: () => void): void {
    if (this.closed !== undefined || this.ended) fn();
    else if (this.#closedListeners === undefined) this.#closedListeners = [fn];
    else this.#closedListeners.push(fn);
  }

  /** A Failure for this leg's transport. */
  lost(kind: FaultKind, cause: unknown): Failure {
    const what =
      kind === "refused"
        ? "refused the connection"
        : kind === "connect"
          ? `could not be reached within ${this.#options.connectMs} ms`
          : kind === "cut"
            ? "cut its answer short"
            : "closed the connection before it answered";
    return new Failure(this.role === "prefill" ? "prefill_unreachable" : "decode_unreachable", {
      status: 502,
      stage: this.role,
      kind,
      message: `The ${this.role} worker ${what}`,
      cause,
    });
  }

  async #probeConnect(): Promise<void> {
    const { transport, url, connectMs } = this.#options;
    const open = await transport.connects?.(url, connectMs / 2).catch(() => false);
    if (open === false && !this.#headersSeen && this.closed === undefined) {
      this.#refuse?.(this.lost("connect", undefined));
      this.close("deadline");
    }
  }

  #lingerAtMost(ms: number, reason: CloseReason, untilEnd: boolean): void {
    const { clock, background } = this.#options;
    const stop = clock.after(ms, () => this.close(reason));
    const over = this.#readAside(untilEnd).finally(() => {
      stop();
      this.close(reason);
    });
    background?.run(over);
  }

  async #readAside(untilEnd: boolean): Promise<void> {
    try {
      const first = await this.#pending;
      if (first instanceof Response) {
        if (this.#reader === undefined) this.attach(first);
      } else if (isStep(first) && (first.done || (!untilEnd && saysSomething(first.value!)))) return;
      for (;;) {
        const chunk = await this.read();
        if (chunk === undefined || (!untilEnd && saysSomething(chunk))) return;
      }
    } catch {
      // The end of a leg that nobody listens to is an end all the same.
    }
  }

  #end(): void {
    this.ended = true;
    this.#notifyClosed();
  }

  #notifyClosed(): void {
    const listeners = this.#closedListeners;
    this.#closedListeners = undefined;
    if (listeners !== undefined) for (const fn of listeners) fn();
  }
}

function isStep(value: unknown): value is Step {
  return typeof value === "object" && value !== null && "done" in value;
}

/** More than blank lines and comments: an engine's pings come while its transfer is still under way. */
function saysSomething(chunk: Uint8Array): boolean {
  return !/^(?:[\r\n]|:[^\r\n]*)*$/.test(latin1.decode(chunk));
}

function ignore(): void {}
