import { ClientGone, Failure, type FaultKind } from "../errors/failure.ts";
import type { Leg } from "../legs/leg.ts";
import { Watch } from "../legs/watch.ts";
import type { PrefillOutcome, PrefillTail, PrefillTask } from "../prefill/task.ts";
import type { Clock } from "../runtime/clock.ts";
import type { EventMeaning, StreamApi } from "../sse/api.ts";
import { SseFramer } from "../sse/framer.ts";
import { parseEvent } from "../sse/parse-event.ts";
import { sequenceAfter } from "../sse/sequence.ts";
import { eventSpans } from "../sse/split.ts";
import { StreamState } from "../sse/stream-state.ts";
import { failureFrame } from "./failure-frame.ts";
import { type EventEditor, type SeenEvent, withData } from "./held-event.ts";

/** What the relay tells, each at most once per cause; counters and logs are the listener's business. */
export interface RelayObserver {
  /** The stream is over for the client. `undefined`: well. */
  ended(failure: Failure | ClientGone | undefined): void;
  /** The first whole event of decode came (a deferred cancel may close the legs from here on). */
  firstEvent(): void;
  settleWaited(ms: number, settled: boolean): void;
  /** Something after the finish event was missing and was completed, or was an error and was dropped. */
  mended(what: "end_mark" | "cut" | "silence" | "error_dropped"): void;
  lateFailure(kind: FaultKind, when: "streaming" | "after_end", passed: boolean): void;
  /** An event that carries usage passed by. */
  usage(data: string): void;
}

export interface RelayOptions {
  leg: Leg;
  api: StreamApi;
  /** How many choices decode's stream has. */
  choices: number;
  task: PrefillTask | undefined;
  /** Known before decode began (sequential modes). */
  tail: PrefillTail | undefined;
  editor: EventEditor | undefined;
  clock: Clock;
  limits: { eventBytes: number; settleMs: number; idleMs: number };
  lateFailure: "any" | "definitive";
  /** The heart's error → what the client may see. */
  explain(error: unknown): Failure;
  mask(text: string): string;
  observer: RelayObserver;
}

/** Chunks that carry no answer are held back so long (contract section 5). */
const HELD_EVENTS = 16;
const HELD_BYTES = 65_536;

/** holding: nothing is committed. settling: a finish is held for prefill's tail. released: the finish went out, nothing can fail any more. */
type State = "holding" | "flowing" | "settling" | "released" | "over";

const encoder = new TextEncoder();
// Bytes to characters one to one, so offsets stay; native, and the mark search then is native too.
const latin1 = new TextDecoder("latin1");
const NO_BYTES = new Uint8Array(0);

/**
 * Decode's stream on its way to the client: byte for byte, whole events only, pulled by the client (nothing is read that nobody waits
 * for). It decides when the status is committed, holds the finish event while prefill's tail is unsettled, and turns every failure after
 * the commit into one frame, the end mark and a clean end.
 *
 * The per-chunk path is `next` → `#onChunk` → `#block`: one framer call, one mark search, no copy, no timer, no race.
 */
export class DecodeRelay {
  readonly #o: RelayOptions;
  readonly #framer = new SseFramer();
  readonly #stream: StreamState;
  readonly #idle: Watch;
  #state: State = "holding";
  #committed = false;
  #contentSeen = false;
  #endSeen = false;
  /** The last block that passed without being read. */
  #unread: Uint8Array | undefined;
  #reading = false;
  #held: SeenEvent[] = [];
  #heldBytes = 0;
  #heldEvents = 0;
  #out: Uint8Array[] = [];
  #tail: PrefillTail | undefined;
  #commit: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  #waiting: ((chunk: Uint8Array | undefined) => void) | undefined;
  /** Milliseconds of silence so far, of which comments do not count as an end. */
  #silence = 0;
  #waitingSince = 0;
  #settleSince = 0;
  #stopSettle: (() => void) | undefined;
  #unsubscribe: (() => void) | undefined;
  bytesOut = 0;
  blocksOut = 0;

  constructor(options: RelayOptions) {
    this.#o = options;
    this.#stream = new StreamState(options.choices);
    this.#idle = new Watch(options.clock, () => this.#silent());
    this.#tail = options.tail;
  }

  /** Reads until the status may be committed. Rejects with the Failure that takes its place. */
  start(): Promise<void> {
    const committed = new Promise<void>((resolve, reject) => {
      this.#commit = { resolve, reject };
    });
    const { task } = this.#o;
    if (task !== undefined) this.#unsubscribe = task.onSettled((outcome) => this.#settled(outcome));
    this.#advance();
    return committed;
  }

  /** The next bytes for the client, undefined at the end. Never rejects. Call again only after the last one has resolved. */
  next(): Promise<Uint8Array | undefined> {
    if (this.#out.length > 0) return Promise.resolve(this.#take());
    if (this.#state === "over") return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#advance();
    });
  }

  /** Ends the stream from outside: the client has left, and nothing more is read or written; or a Failure, which becomes its last frame. */
  stop(why: ClientGone | Failure): void {
    if (why instanceof ClientGone) this.#finish(why);
    else this.#fail(why);
  }

  /** Before the commit: forget this stream, another attempt takes its place. */
  abandon(): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#letGo();
  }

  get committed(): boolean {
    return this.#committed;
  }

  /** The finish event has gone out. */
  get released(): boolean {
    return this.#state === "released" || this.#endSeen;
  }

  get contentSeen(): boolean {
    return this.#contentSeen;
  }

  // -- reading

  #advance(): void {
    if (this.#out.length > 0) {
      this.#deliver();
      if (this.#waiting === undefined) return;
    }
    if (this.#reading || this.#state === "over" || this.#state === "settling") return;
    if (this.#committed ? this.#waiting === undefined : this.#awaitingTail()) return;
    this.#reading = true;
    if (this.#committed) {
      this.#waitingSince = this.#o.clock.now();
      if (this.#o.limits.idleMs > 0) this.#idle.set(Math.max(1, this.#o.limits.idleMs - this.#silence));
    }
    this.#o.leg.read().then(this.#onChunk, this.#onError);
  }

  readonly #onChunk = (chunk: Uint8Array | undefined): void => {
    this.#reading = false;
    if (this.#state === "over") return;
    this.#idle.pause();
    if (chunk === undefined) {
      this.#endOfBody();
      return;
    }
    const block = this.#framer.push(chunk);
    if (block !== undefined) this.#block(block);
    else if (this.#committed) this.#silence += this.#o.clock.now() - this.#waitingSince;
    if (this.#framer.pending > this.#o.limits.eventBytes && (this.#state as State) !== "over") {
      this.#fail(
        new Failure("event_too_large", {
          status: 502,
          stage: "decode",
          kind: "content",
          message: `The decode worker sent an event of more than ${this.#o.limits.eventBytes} bytes`,
        }),
      );
    }
    this.#advance();
  };

  readonly #onError = (error: unknown): void => {
    this.#reading = false;
    if (this.#state === "over") return;
    if (this.#state === "released") {
      this.#complete("cut");
      return;
    }
    const lost = error instanceof Failure ? error : this.#o.leg.lost("cut", error);
    // Before an answer: unreachable, and may be retried. After it: a failed answer.
    this.#fail(
      this.#contentSeen
        ? new Failure("decode_failed", {
            status: 502,
            stage: "decode",
            kind: "cut",
            message: lost.message,
            cause: error,
          })
        : lost,
    );
  };

  #endOfBody(): void {
    const rest = this.#framer.flush();
    if (rest !== undefined) this.#unfinished(rest);
    if (this.#state === "over" || this.#state === "settling") return;
    if (this.#state === "released") {
      this.#complete(this.#o.api.endMark === "" ? undefined : "end_mark");
      return;
    }
    this.#fail(
      new Failure("decode_failed", {
        status: 502,
        stage: "decode",
        kind: "cut",
        message: "The decode worker's stream ended before its answer was finished",
      }),
    );
  }

  /** A last event without its blank line: taken when its data is whole, dropped otherwise (WHATWG drops it always; engines do forget the line). */
  #unfinished(rest: Uint8Array): void {
    // One line end where the last line has its own; a CR alone may be half of one.
    const ended = new Uint8Array(rest.length + (rest[rest.length - 1] === 10 ? 1 : 2));
    ended.set(rest);
    ended.fill(10, rest.length);
    const { data } = parseEvent(ended);
    if (data === undefined || (data !== "[DONE]" && !isJson(data))) return;
    this.#block(ended);
  }

  // -- looking

  #block(block: Uint8Array): void {
    const { api, editor } = this.#o;
    if (this.#state === "flowing" && !api.suspicious(latin1.decode(block))) {
      this.#silence = 0;
      this.#unread = block;
      if (editor?.everyEvent === true) this.#editUnread(block);
      else this.#out.push(block);
      return;
    }
    for (const { start, end } of eventSpans(block)) {
      if (this.#state === "over") return;
      this.#event(start === 0 && end === block.length ? block : block.subarray(start, end));
    }
    if (
      this.#state === "holding" &&
      !this.#awaitingTail() &&
      (this.#heldEvents >= HELD_EVENTS || this.#heldBytes >= HELD_BYTES)
    ) {
      this.#commitNow();
    }
  }

  /** Events without marks: what they mean is known, and only the editor has business with their data. */
  #editUnread(block: Uint8Array): void {
    for (const { start, end } of eventSpans(block)) {
      const bytes = start === 0 && end === block.length ? block : block.subarray(start, end);
      this.#emit({ bytes, parsed: parseEvent(bytes), meaning: MORE });
    }
  }

  #event(bytes: Uint8Array): void {
    // The end mark is held for prefill's tail: nothing may follow it, whatever decode still says.
    if (this.#endSeen) return;
    const { api, observer } = this.#o;
    const parsed = parseEvent(bytes);
    if (parsed.data !== undefined) {
      this.#silence = 0;
      observer.firstEvent();
    } else if (this.#committed) {
      this.#silence += this.#o.clock.now() - this.#waitingSince;
      this.#waitingSince = this.#o.clock.now();
    }
    const meaning = parsed.data === undefined ? NOTHING : api.read(parsed, this.#stream);
    if (meaning.usage && parsed.data !== undefined) observer.usage(parsed.data);
    const seen: SeenEvent = { bytes, parsed, meaning };
    if (meaning.failure !== undefined) {
      if (this.#state === "released") observer.mended("error_dropped");
      else this.#engineFailure(seen);
      return;
    }
    if (meaning.answers) this.#contentSeen = true;
    if (meaning.end) this.#endSeen = true;
    switch (this.#state) {
      case "settling":
        this.#hold(seen);
        return;
      case "holding":
        this.#hold(seen);
        if (meaning.finishes || meaning.end) this.#success();
        else if (meaning.answers && !this.#awaitingTail()) this.#commitNow();
        return;
      case "flowing":
        if (meaning.finishes || meaning.end) {
          this.#hold(seen);
          this.#success();
        } else this.#emit(seen);
        return;
      case "released":
        this.#emit(seen);
        if (meaning.end) this.#finish(undefined);
        return;
    }
  }

  /** Decode says it is done. That is true once prefill is (or its bound has passed). */
  #success(): void {
    const { task, editor, limits } = this.#o;
    // What the client asked prefill for is worth waiting for: such an answer has no bound but prefill's own.
    const needed = editor?.needsTail === true;
    if (task === undefined || task.outcome !== null || (limits.settleMs <= 0 && !needed)) {
      this.#release();
      return;
    }
    this.#state = "settling";
    this.#settleSince = this.#o.clock.now();
    if (needed) return;
    this.#stopSettle = this.#o.clock.after(limits.settleMs, () => {
      if (this.#state !== "settling") return;
      this.#o.observer.settleWaited(this.#o.clock.now() - this.#settleSince, false);
      this.#release();
      this.#advance();
    });
  }

  #release(): void {
    this.#stopSettle?.();
    this.#stopSettle = undefined;
    this.#state = "released";
    this.#flushHeld();
    this.#resolveCommit();
    if (this.#endSeen) this.#finish(undefined);
  }

  #settled(outcome: PrefillOutcome): void {
    if (this.#state === "over") return;
    if (outcome.ok) {
      this.#tail = outcome.tail;
      this.#afterSettling();
      return;
    }
    const failure = this.#o.explain(outcome.error);
    const kind = failure.kind ?? "content";
    if (this.#state === "released") {
      this.#o.observer.lateFailure(kind, "after_end", true);
      return;
    }
    const lostOnly = kind === "reset" || kind === "cut" || kind === "refused" || kind === "connect";
    if (lostOnly && this.#contentSeen && this.#o.lateFailure === "definitive") {
      this.#o.observer.lateFailure(kind, "streaming", true);
      this.#afterSettling();
      return;
    }
    if (this.#committed) this.#o.observer.lateFailure(kind, "streaming", false);
    this.#fail(failure);
  }

  #afterSettling(): void {
    if (this.#state === "settling") {
      this.#o.observer.settleWaited(this.#o.clock.now() - this.#settleSince, true);
      this.#release();
    } else if (this.#state === "holding" && this.#contentSeen) this.#commitNow();
    this.#advance();
  }

  /** Input logprobs were asked for: the first answer goes out with them, so it waits. */
  #awaitingTail(): boolean {
    return (
      this.#o.editor?.needsTail === true &&
      this.#contentSeen &&
      this.#o.task !== undefined &&
      this.#o.task.outcome === null
    );
  }

  #silent(): void {
    if (this.#state === "released") {
      this.#complete("silence");
      return;
    }
    this.#fail(
      new Failure("decode_timeout", {
        status: 504,
        stage: "decode",
        kind: "timeout",
        message: `The decode worker was silent for ${this.#o.limits.idleMs} ms`,
      }),
    );
  }

  // -- writing

  #hold(seen: SeenEvent): void {
    this.#held.push(seen);
    this.#heldBytes += seen.bytes.length;
    // A comment is not an event: an engine's pings must not commit a status.
    if (seen.parsed.data !== undefined) this.#heldEvents++;
  }

  #commitNow(): void {
    this.#state = "flowing";
    this.#flushHeld();
    this.#resolveCommit();
  }

  #resolveCommit(): void {
    this.#committed = true;
    this.#commit?.resolve();
    this.#commit = undefined;
  }

  #flushHeld(): void {
    const held = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    if (held.length === 1) this.#emit(held[0]!);
    else if (held.length > 1) this.#out.push(concat(held.map((seen) => this.#render(seen))));
  }

  #emit(seen: SeenEvent): void {
    this.#out.push(this.#render(seen));
  }

  #render(seen: SeenEvent): Uint8Array {
    const { editor } = this.#o;
    const data = seen.parsed.data;
    if (editor === undefined || data === undefined) return seen.bytes;
    const edited = editor.edit(data, seen.meaning, this.#tail);
    return edited === undefined || edited === data ? seen.bytes : withData(seen, edited);
  }

  #deliver(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    this.#waiting = undefined;
    waiting(this.#take());
  }

  #take(): Uint8Array | undefined {
    // Events that came apart but are ready together go out together.
    const bytes = this.#out.length === 1 ? this.#out[0]! : concat(this.#out);
    this.#out.length = 0;
    this.bytesOut += bytes.length;
    this.blocksOut++;
    return bytes;
  }

  // -- ending

  #engineFailure(seen: SeenEvent): void {
    const { fault, nested } = seen.meaning.failure!;
    const status = fault.status ?? 502;
    this.#fail(
      new Failure("decode_failed", {
        status,
        stage: "decode",
        kind: "content",
        message: fault.message,
        engine: fault,
        ...(nested ? { frame: seen.bytes } : {}),
      }),
    );
  }

  /** Before the commit a rejection, after it one frame; after the finish event neither. */
  #fail(failure: Failure): void {
    if (this.#state === "over") return;
    if (this.#state === "released") {
      this.#complete("cut");
      return;
    }
    if (!this.#committed) {
      this.abandon();
      this.#commit?.reject(failure);
      this.#commit = undefined;
      return;
    }
    this.#held.length = 0;
    const { api, mask } = this.#o;
    this.#out.push(encoder.encode(failureFrame(failure, api, mask, this.#nextSequence())));
    this.#finish(failure);
  }

  /** Number of the router's own event (responses). Most events before it were not read. */
  #nextSequence(): number {
    const { nextSequence } = this.#stream;
    if (this.#o.api.name !== "responses" || this.#unread === undefined) return nextSequence;
    return Math.max(nextSequence, sequenceAfter(latin1.decode(this.#unread), nextSequence));
  }

  /** The finish event is out: whatever is missing after it is completed. */
  #complete(why: "end_mark" | "cut" | "silence" | undefined): void {
    if (why !== undefined) this.#o.observer.mended(why);
    // Nothing more is to be hoped for from a socket that lingers.
    if (why === "silence") this.#o.leg.close("deadline");
    const { endMark } = this.#o.api;
    if (endMark !== "" && !this.#endSeen) this.#out.push(encoder.encode(endMark));
    this.#finish(undefined);
  }

  #finish(failure: Failure | ClientGone | undefined): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#letGo();
    const commit = this.#commit;
    this.#commit = undefined;
    if (failure instanceof ClientGone) {
      this.#out.length = 0;
      commit?.reject(failure);
    }
    this.#o.observer.ended(failure);
    if (this.#out.length > 0) this.#deliver();
    else {
      this.#waiting?.(undefined);
      this.#waiting = undefined;
    }
  }

  #letGo(): void {
    this.#idle.stop();
    this.#stopSettle?.();
    this.#unsubscribe?.();
  }
}

/** Any event in the middle of an answer. */
const MORE: EventMeaning = { answers: true, finishes: false, end: false, usage: false, failure: undefined };
const NOTHING: EventMeaning = { answers: false, finishes: false, end: false, usage: false, failure: undefined };

function concat(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  if (length === 0) return NO_BYTES;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
