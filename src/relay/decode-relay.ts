import { ClientGone, Failure, isMerelyLost } from "../errors/failure.ts";
import type { BodyReader } from "../legs/exchange.ts";
import type { Leg } from "../legs/leg.ts";
import type { PrefillOutcome, PrefillTail } from "../prefill/task.ts";
import type { StreamApi } from "../sse/api.ts";
import { MORE, NO_MEANING } from "../sse/event-data.ts";
import { SseFramer } from "../sse/framer.ts";
import { eventOutlines, hasData, outline } from "../sse/outline.ts";
import { parseEvent } from "../sse/parse-event.ts";
import { sequenceAfter } from "../sse/sequence.ts";
import { eventSpans } from "../sse/split.ts";
import { StreamState } from "../sse/stream-state.ts";
import { failureFrame } from "./failure-frame.ts";
import { cutShort, endedEarly, engineFailure, eventTooLarge, tooSilent } from "./failures.ts";
import { type SeenEvent, withData } from "./held-event.ts";
import { HeldEvents } from "./held-events.ts";
import { lastEvent } from "./last-event.ts";
import { type BytesTaker, concat, Outbox } from "./outbox.ts";
import type { RelayOptions } from "./ports.ts";
import { SettleWait } from "./settle-wait.ts";
import { Silence, type SilenceListener } from "./silence.ts";

export type { RelayObserver, RelayOptions } from "./ports.ts";

/** holding: nothing is committed. settling: a finish is held for prefill's tail. released: the finish went out, nothing can fail any more. */
type State = "holding" | "flowing" | "settling" | "released" | "over";

const encoder = new TextEncoder();

/**
 * Decode's stream on its way to the client: byte for byte, whole events only, pulled by the client (nothing is read that nobody waits
 * for). It decides when the status is committed, holds the finish event while prefill's tail is unsettled, and turns every failure after
 * the commit into one frame, the end mark and a clean end.
 *
 * The per-chunk path is `pull` → `chunk` → `#block`: one framer call, one mark search, no copy, no timer, no race.
 */
export class DecodeRelay implements BodyReader, SilenceListener {
  // What each chunk meets stands together.
  #state: State = "holding";
  #reading = false;
  #committed = false;
  #contentSeen = false;
  readonly #leg: Leg;
  readonly #framer = new SseFramer();
  readonly #silence: Silence;
  readonly #out = new Outbox();
  readonly #api: StreamApi;
  readonly #eventBytes: number;
  readonly #everyEvent: boolean;
  /** The last block with data that went out; most are not read. */
  #last: Uint8Array | undefined;
  readonly #o: RelayOptions;
  readonly #stream: StreamState;
  #endSeen = false;
  readonly #held = new HeldEvents();
  #tail: PrefillTail | undefined;
  #commit: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  readonly #settleWait: SettleWait;
  #unsubscribe: (() => void) | undefined;

  constructor(options: RelayOptions) {
    this.#o = options;
    this.#leg = options.leg;
    this.#api = options.api;
    this.#eventBytes = options.limits.eventBytes;
    this.#everyEvent = options.editor?.everyEvent === true;
    this.#stream = new StreamState(options.choices);
    this.#silence = new Silence(options.clock, options.limits.idleMs, this, options.observer);
    this.#settleWait = new SettleWait(options.clock, options.observer);
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
    return new Promise((resolve) => this.pull({ take: resolve }));
  }

  /** Gives the next bytes for the client to `taker` once, undefined at the end. Call again only after that. */
  pull(taker: BytesTaker): void {
    if (!this.#out.empty) taker.take(this.#out.take());
    else if (this.#state === "over") taker.take(undefined);
    else {
      this.#out.await(taker);
      this.#advance();
    }
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

  /** Decode is waited for: the client, or the commit, has asked for more. */
  get waits(): boolean {
    return this.#reading;
  }

  get contentSeen(): boolean {
    return this.#contentSeen;
  }

  /** Bytes and blocks that the client has got, or gets when it asks for what is ready. Exact when the stream has ended. */
  given(): { bytes: number; blocks: number } {
    return this.#out.given();
  }

  // -- reading

  #advance(): void {
    if (!this.#out.empty) {
      this.#out.deliver();
      if (!this.#out.awaited) return;
    }
    if (this.#reading || this.#state === "over" || this.#state === "settling") return;
    if (this.#committed ? !this.#out.awaited : this.#awaitingTail()) return;
    this.#reading = true;
    // Silence before the first answer is `firstTokenMs`'s, also where empty chunks have committed the status.
    if (this.#committed && this.#contentSeen) this.#silence.begin();
    this.#leg.pull(this);
  }

  /** The leg's call, as is `cut`: what it has read. */
  chunk(bytes: Uint8Array | undefined): void {
    this.#reading = false;
    if (this.#state === "over") return;
    this.#silence.pause();
    if (bytes === undefined) {
      this.#endOfBody();
      return;
    }
    const block = this.#framer.push(bytes);
    if (block !== undefined) this.#block(block);
    else if (this.#committed) this.#silence.goesOn();
    if (this.#keepsTooMuch() && (this.#state as State) !== "over") this.#fail(eventTooLarge(this.#eventBytes));
    this.#advance();
  }

  /** Of an event that does not end; or of events without an answer, where the first answer has to wait for prefill. */
  #keepsTooMuch(): boolean {
    if (this.#framer.pending > this.#eventBytes) return true;
    return this.#state === "holding" && this.#held.bytes > this.#eventBytes;
  }

  cut(error: unknown): void {
    this.#reading = false;
    if (this.#state === "over") return;
    if (this.#state === "released") {
      this.#complete("cut");
      return;
    }
    const lost = error instanceof Failure ? error : this.#leg.lost("cut", error);
    this.#fail(cutShort(lost, this.#contentSeen, error));
  }

  #endOfBody(): void {
    const rest = this.#framer.flush();
    const last = rest === undefined ? undefined : lastEvent(rest);
    if (last !== undefined) this.#block(last);
    if (this.#state === "over" || this.#state === "settling") return;
    if (this.#state === "released") {
      this.#complete(this.#api.endMark === "" ? undefined : "end_mark");
      return;
    }
    this.#fail(endedEarly());
  }

  // -- looking

  #block(block: Uint8Array): void {
    const api = this.#api;
    // A status that was committed without an answer: the first one has to be noticed.
    if (!this.#contentSeen || this.#state !== "flowing") {
      this.#eachEvent(block);
      return;
    }
    const text = outline(block);
    if (api.suspicious(text)) this.#eachEvent(block);
    else this.#pass(block, hasData(text));
  }

  #eachEvent(block: Uint8Array): void {
    const api = this.#api;
    // At full speed a block holds dozens of events, and the one with a mark is the last: the others need no more than a second search.
    const spans = eventSpans(block);
    const outlineOf = eventOutlines(block, spans.length);
    let passing = 0;
    let passesData = false;
    for (const { start, end } of spans) {
      if (this.#contentSeen && this.#state === "flowing") {
        const text = outlineOf(start, end);
        if (!api.suspicious(text)) {
          passesData ||= hasData(text);
          continue;
        }
      }
      if (passing < start) this.#pass(block.subarray(passing, start), passesData);
      passing = end;
      passesData = false;
      this.#event(start === 0 && end === block.length ? block : block.subarray(start, end));
      if ((this.#state as State) === "over") return;
    }
    if (passing < block.length) this.#pass(passing === 0 ? block : block.subarray(passing), passesData);
    if (this.#state === "holding" && this.#held.full && !this.#needsTail()) this.#commitNow();
  }

  /**
   * Events without marks, while the stream flows: what they mean is known, and only the editor has business with their data. What has none
   * (blank lines, a bare `event` or `id`) is somebody's heartbeat and no event.
   */
  #pass(block: Uint8Array, hasData: boolean): void {
    if (hasData) {
      this.#silence.broken();
      this.#last = block;
    } else this.#silence.goesOn();
    if (!this.#everyEvent) {
      this.#out.push(block);
      return;
    }
    for (const { start, end } of eventSpans(block)) {
      const bytes = start === 0 && end === block.length ? block : block.subarray(start, end);
      this.#emit({ bytes, parsed: parseEvent(bytes), meaning: MORE });
    }
  }

  #event(bytes: Uint8Array): void {
    // The end mark is held for prefill's tail: nothing may follow it, whatever decode still says.
    if (this.#endSeen) return;
    const api = this.#api;
    const { observer } = this.#o;
    const parsed = parseEvent(bytes);
    if (parsed.data !== undefined) {
      this.#silence.broken();
      observer.firstEvent();
    } else if (this.#committed) {
      this.#silence.goesOn();
    }
    const meaning = parsed.data === undefined ? NO_MEANING : api.read(parsed, this.#stream);
    if (meaning.usage && parsed.data !== undefined) observer.usage(parsed.data);
    const seen: SeenEvent = { bytes, parsed, meaning };
    if (meaning.failure !== undefined) {
      if (this.#state === "released") observer.mended("error_dropped");
      else this.#fail(engineFailure(seen));
      return;
    }
    if (meaning.answers) this.#contentSeen = true;
    if (meaning.end) this.#endSeen = true;
    switch (this.#state) {
      case "settling":
        this.#held.hold(seen);
        return;
      case "holding":
        this.#held.hold(seen);
        if (meaning.finishes || meaning.end) this.#success();
        else if (meaning.answers && !this.#awaitingTail()) this.#commitNow();
        return;
      case "flowing":
        if (meaning.finishes || meaning.end) {
          this.#held.hold(seen);
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
    const needed = editor?.needsTail === true || this.#o.observer.prefillFails();
    if (task === undefined || task.outcome !== null || (limits.settleMs <= 0 && !needed)) {
      this.#release();
      return;
    }
    this.#state = "settling";
    this.#settleWait.begin(needed ? undefined : limits.settleMs, () => {
      this.#release();
      this.#advance();
    });
  }

  #release(): void {
    this.#settleWait.stop();
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
    const failure = this.#o.observer.explain(outcome.error);
    const kind = failure.kind ?? "content";
    if (this.#state === "released") {
      this.#o.observer.lateFailure(kind, "after_end", true);
      return;
    }
    // Not what was asked for: an answer without it would be another one.
    const dispensable = isMerelyLost(kind) && this.#o.editor?.needsTail !== true;
    if (dispensable && this.#contentSeen && this.#o.lateFailure === "definitive") {
      this.#o.observer.lateFailure(kind, "streaming", true);
      this.#afterSettling();
      return;
    }
    if (this.#committed) this.#o.observer.lateFailure(kind, "streaming", false);
    this.#fail(failure);
  }

  #afterSettling(): void {
    if (this.#state === "settling") {
      this.#settleWait.settled();
      this.#release();
    } else if (this.#state === "holding" && this.#contentSeen) this.#commitNow();
    this.#advance();
  }

  /** Input logprobs were asked for: the first answer goes out with them, so it waits. */
  #awaitingTail(): boolean {
    return this.#contentSeen && this.#needsTail();
  }

  #needsTail(): boolean {
    const { editor, task } = this.#o;
    return editor?.needsTail === true && task !== undefined && task.outcome === null;
  }

  /** Called by the watch over decode's silence. */
  silent(): void {
    if (this.#state === "released") {
      this.#complete("silence");
      return;
    }
    this.#fail(tooSilent(this.#o.limits.idleMs));
  }

  // -- writing

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
    const held = this.#held.take();
    for (const seen of held) this.#remember(seen);
    if (held.length === 1) this.#emit(held[0]!);
    else if (held.length > 1) this.#out.push(concat(held.map((seen) => this.#render(seen))));
  }

  #emit(seen: SeenEvent): void {
    this.#remember(seen);
    this.#out.push(this.#render(seen));
  }

  #remember({ bytes, parsed }: SeenEvent): void {
    if (parsed.data !== undefined) this.#last = bytes;
  }

  #render(seen: SeenEvent): Uint8Array {
    const { editor } = this.#o;
    const data = seen.parsed.data;
    if (editor === undefined || data === undefined) return seen.bytes;
    const edited = editor.edit(data, seen.meaning, this.#tail);
    return edited === undefined || edited === data ? seen.bytes : withData(seen, edited);
  }

  // -- ending

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
    this.#held.take();
    this.#out.push(encoder.encode(failureFrame(failure, this.#api, this.#o.mask, this.#nextSequence())));
    this.#finish(failure);
  }

  /** Number of the router's own event (responses), after those that the client has got. */
  #nextSequence(): number {
    return this.#last === undefined || this.#api.name !== "responses" ? 0 : sequenceAfter(outline(this.#last), 0);
  }

  /** The finish event is out: whatever is missing after it is completed. */
  #complete(why: "end_mark" | "cut" | "silence" | undefined): void {
    if (why !== undefined) this.#o.observer.mended(why);
    // Nothing more is to be hoped for from a socket that lingers.
    if (why === "silence") this.#leg.close("deadline");
    const { endMark } = this.#api;
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
      this.#out.clear();
      commit?.reject(failure);
    }
    try {
      this.#o.observer.ended(failure);
    } finally {
      // Whatever the house makes of it (a background of the embedder's own may throw): the client does not wait for ever.
      this.#out.end();
    }
  }

  #letGo(): void {
    this.#silence.stop();
    this.#settleWait.stop();
    this.#unsubscribe?.();
  }
}
