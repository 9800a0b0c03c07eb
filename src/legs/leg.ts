import type { EngineAnswer } from "../engines/dialect.ts";
import { asFailure, Failure, type FaultKind } from "../errors/failure.ts";
import { Pieces } from "../json/pieces.ts";
import type { Clock } from "../runtime/clock.ts";
import { Preamble } from "../sse/preamble.ts";
import { complaintOf } from "./complaint.ts";
import type { AnswerHead, BodyReader, Exchange, HeadListener } from "./exchange.ts";
import { FetchExchange } from "./fetch-exchange.ts";
import type { SharedHeaders } from "./shared-headers.ts";
import { faultBeforeHeaders, type SendRequest, type Transport } from "./transport.ts";

const latin1 = new TextDecoder("latin1");

/** Why a leg was closed by us; its own later errors are echoes and nobody's news. */
export type CloseReason = "client" | "other-leg" | "deadline" | "done" | "shutdown" | "unreachable";

export interface LegOptions {
  role: "prefill" | "decode";
  /** The worker's name, for messages: never its address. */
  worker: string;
  url: string;
  /** Of this leg alone. */
  headers: Record<string, string>;
  shared?: SharedHeaders;
  body: Pieces;
  connectMs: number;
  /** Not on a kept-alive connection. */
  fresh?: boolean;
  transport: Transport;
  clock: Clock;
  /** Keeps reading that outlives the response alive. Absent where nothing does. */
  background?: { run(task: Promise<unknown>): void };
}

/** A body, or as much of it as was wanted. */
export interface AnswerText {
  text: string;
  truncated: boolean;
}

/** What is under way: the head, one read, or the whole body as text. */
type Pending = "head" | "chunk" | "text" | undefined;

/** One HTTP request to one engine, from dispatch to the end of its answer. Closing one leg never closes the other. */
export class Leg implements HeadListener, BodyReader {
  // What each chunk meets stands together.
  #exchange: Exchange | undefined;
  #pending: Pending;
  /** Who gets the next bytes. */
  #reader: BodyReader | undefined;
  /** Reads on when nobody else does. */
  #aside: Aside | undefined;
  readonly role: "prefill" | "decode";
  readonly worker: string;
  readonly #options: LegOptions;
  #body: Pieces | undefined;
  #answers = false;
  #stopConnectWatch: (() => void) | undefined;
  #accept: ((head: AnswerHead) => void) | undefined;
  #refuse: ((failure: Failure) => void) | undefined;
  #closedListeners: (() => void)[] | undefined;
  closed: CloseReason | undefined;
  /** The request is on its way, or has been. */
  get begun(): boolean {
    return this.#exchange !== undefined;
  }

  get isOver(): boolean {
    return this.closed !== undefined || this.ended;
  }

  /** It was ended from here although it might have gone on: what became of it then says nothing about the worker. */
  get cutHere(): boolean {
    return this.closed !== undefined && this.closed !== "unreachable";
  }

  /** The answer's own end was seen: nothing is left to close. */
  ended = false;
  /** The answer's status is one of an error, and its words are still to come. */
  complaining = false;
  /** Decode has sent a whole event (or, buffered, prefill has ended): a deferred cancel may close the legs from here on. */
  firstEventSeen = false;

  constructor(options: LegOptions) {
    this.role = options.role;
    this.worker = options.worker;
    this.#options = options;
    this.#body = options.body;
    // Sent once; a copy of the prompt must not stay in memory for as long as its answer streams.
    options.body = Pieces.NONE;
  }

  /** Sends the request; resolves with the answer's head. Rejects with a Failure (`prefill_unreachable`, `decode_unreachable`). */
  open(): Promise<AnswerHead> {
    return new Promise((resolve, reject) => this.begin(resolve, reject));
  }

  /** `open` with callbacks, of which one is called, once. */
  begin(accept: (head: AnswerHead) => void, refuse: (failure: Failure) => void): void {
    const { url, headers, shared, transport, connectMs, fresh } = this.#options;
    const request: SendRequest = { headers, shared, body: this.#body ?? Pieces.NONE, fresh: fresh === true, connectMs };
    this.#body = undefined;
    // `Promise.race` and an async function around it cost 5 µs a leg more.
    this.#accept = accept;
    this.#refuse = refuse;
    this.#pending = "head";
    try {
      this.#exchange = transport.send?.(url, request, this) ?? this.#overFetch(url, request);
    } catch (error) {
      this.#opened();
      // For a reason of our own (a header that cannot be sent): no worker has failed.
      refuse(asFailure(error));
    }
  }

  /** The transport's call: the answer's head is here. */
  head(head: AnswerHead): void {
    const accept = this.#accept;
    this.#opened();
    this.#answers = true;
    accept?.(head);
    this.#aside?.headSeen();
  }

  /** The transport's call: an error came in place of the head. */
  failed(error: unknown): void {
    const refuse = this.#refuse;
    this.#opened();
    refuse?.(error instanceof Failure ? error : this.lost(faultBeforeHeaders(error), error));
    this.#nothingMore();
  }

  #opened(): void {
    this.#pending = undefined;
    this.#accept = undefined;
    this.#refuse = undefined;
    this.#stopConnectWatch?.();
    this.#stopConnectWatch = undefined;
  }

  /** `fetch` cannot bound a connect: after half the time without a head, one bare connection tells whether anybody is there. */
  #overFetch(url: string, request: SendRequest): Exchange {
    const { transport, clock, connectMs } = this.#options;
    if (connectMs > 0 && transport.connects !== undefined) {
      this.#stopConnectWatch = clock.after(connectMs / 2, () => void this.#probeConnect());
    }
    return new FetchExchange(transport.fetch, url, request, this);
  }

  /**
   * Reads the next bytes of the answer for `reader`, which is told a Failure of kind `cut` when it is cut. For the chunks of a stream, where
   * each promise counts: there is none here.
   */
  pull(reader: BodyReader): void {
    this.#reader = reader;
    // The reader aside has asked already: what it has asked for is now this caller's.
    if (this.#pending === "chunk") return;
    this.#pending = "chunk";
    this.#exchange!.read(this);
  }

  /** The exchange's call, as is `cut`: what a read has brought. */
  chunk(bytes: Uint8Array | undefined): void {
    this.#pending = undefined;
    if (bytes === undefined) this.#end();
    try {
      this.#reader!.chunk(bytes);
    } catch (error) {
      // Of our own making. Whoever has thrown waits for nothing any more, and would leave its client waiting for ever.
      this.close("other-leg");
      this.#reader!.cut(asFailure(error));
      return;
    }
    this.#aside?.seen(bytes);
  }

  cut(error: unknown): void {
    this.#pending = undefined;
    this.#end();
    this.#reader!.cut(error instanceof Failure ? error : this.lost("cut", error));
    this.#nothingMore();
  }

  /** The next bytes of the answer, `undefined` at its clean end. Rejects with a Failure of kind `cut`. */
  read(): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => this.pull({ chunk: resolve, cut: reject }));
  }

  /** The whole answer as text, at most `limit` bytes of it; what comes beyond is read and dropped, and so are comments before it. */
  async answer(limit: number): Promise<EngineAnswer> {
    const head = await this.open();
    const { status, headers } = head;
    if (status < 200 || status > 299) return { status, headers, text: await this.complaint(), truncated: false };
    const { text, truncated } = await this.text(head, limit, new Preamble());
    return { status, headers, text, truncated };
  }

  /** What the engine says of its error (`complaintOf`). */
  complaint(): Promise<string> {
    return complaintOf(this, this.#options.clock);
  }

  /**
   * The body as text, at most `limit` bytes of it, byte for byte but for a `preamble` that is taken off. Itself, and no promise, where a
   * short one has come already.
   */
  text(head: AnswerHead, limit: number, preamble?: Preamble): AnswerText | Promise<AnswerText> {
    // Some of it was read for nobody already (`linger`).
    if (this.#aside?.hasRead === true) return Promise.reject(this.lost("cut", undefined));
    const length = Number(head.headers.get("content-length") ?? Number.NaN);
    // In one go when the length is known to be bearable: a reader loop costs several promises. A compressed answer, which nobody has asked
    // for, tells its length on the wire: a few kilobytes may unpack to gigabytes.
    const bearable = length <= limit && !head.headers.has("content-encoding");
    return bearable ? this.#wholeText() : this.#textUpTo(limit, preamble);
  }

  #wholeText(): AnswerText | Promise<AnswerText> {
    const text = this.#exchange!.text();
    if (typeof text !== "string") return this.#textToCome(text);
    this.#end();
    this.#nothingMore();
    return { text, truncated: false };
  }

  async #textToCome(text: Promise<string>): Promise<AnswerText> {
    this.#pending = "text";
    try {
      return { text: await text, truncated: false };
    } catch (error) {
      throw error instanceof Failure ? error : this.lost("cut", error);
    } finally {
      this.#pending = undefined;
      this.#end();
      this.#nothingMore();
    }
  }

  async #textUpTo(limit: number, preamble: Preamble | undefined): Promise<AnswerText> {
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
    const refuse = this.#refuse;
    this.#accept = undefined;
    this.#refuse = undefined;
    refuse?.(this.lost("reset", undefined));
    // What is pending fails with our own closing, which is no news.
    this.#exchange?.close();
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
    return new Failure(this.role === "prefill" ? "prefill_unreachable" : "decode_unreachable", {
      status: 502,
      stage: this.role,
      kind,
      message: `The ${this.role} worker ${this.#whatItDid(kind, cause)}`,
      cause,
    });
  }

  #whatItDid(kind: FaultKind, cause: unknown): string {
    const malformed = malformedHttp(cause);
    if (malformed !== undefined) return `sent what is not HTTP (${malformed})`;
    if (kind === "refused") return "refused the connection";
    if (kind === "connect") return `could not be reached within ${this.#options.connectMs} ms`;
    return kind === "cut" ? "cut its answer short" : "closed the connection before it answered";
  }

  async #probeConnect(): Promise<void> {
    const { transport, url, connectMs } = this.#options;
    const open = await transport.connects?.(url, connectMs / 2).catch(() => false);
    if (open === false && this.#refuse !== undefined && this.closed === undefined) {
      const refuse = this.#refuse;
      this.#refuse = undefined;
      this.close("unreachable");
      refuse(this.lost("connect", undefined));
    }
  }

  #lingerAtMost(ms: number, reason: CloseReason, untilEnd: boolean): void {
    if (this.#aside !== undefined) return;
    if (!this.#answers && this.#pending === undefined) {
      // Never sent, or failed before it was answered.
      this.close(reason);
      return;
    }
    const { clock, background } = this.#options;
    const stop = clock.after(ms, () => this.close(reason));
    this.onClosed(stop);
    background?.run(new Promise<void>((resolve) => this.onClosed(resolve)));
    const readOn = (): void => {
      if (this.#pending !== undefined || this.#aside === undefined) return;
      this.#aside.hasRead = true;
      this.pull(NOBODY);
    };
    this.#aside = {
      hasRead: false,
      // After whoever has waited for it, and may want to read the answer all the same: a prefill that ends well is no failed one.
      headSeen: () => queueMicrotask(readOn),
      seen: (chunk) => {
        if (chunk !== undefined && (untilEnd || !saysSomething(chunk))) readOn();
        else this.close(reason);
      },
      over: () => this.close(reason),
    };
    // What somebody has begun to wait for comes here too when it has come.
    readOn();
  }

  #nothingMore(): void {
    this.#aside?.over();
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

/** The reader of a leg that nobody listens to any more. */
interface Aside {
  hasRead: boolean;
  headSeen(): void;
  seen(chunk: Uint8Array | undefined): void;
  /** There is nothing more to read. */
  over(): void;
}

/** What a parser has found wrong with an answer, by llhttp's name for it. */
function malformedHttp(cause: unknown): string | undefined {
  const code = (cause as { code?: unknown } | undefined)?.code;
  return typeof code === "string" && code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE" ? code : undefined;
}

/** More than blank lines and comments: an engine's pings come while its transfer is still under way. */
function saysSomething(chunk: Uint8Array): boolean {
  return !/^(?:[\r\n]|:[^\r\n]*)*$/.test(latin1.decode(chunk));
}

/** Who listens to a leg that is read away. */
const NOBODY: BodyReader = { chunk() {}, cut() {} };
