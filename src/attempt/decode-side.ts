import { statusFailure } from "../engines/failures.ts";
import { editAnswer } from "../engines/response-edits.ts";
import { type ClientGone, Failure, type FaultKind, isMerelyLost } from "../errors/failure.ts";
import type { AnswerHead } from "../legs/exchange.ts";
import type { Leg } from "../legs/leg.ts";
import { passedHeaders } from "../legs/passed-headers.ts";
import type { PrefillTail, PrefillTask } from "../prefill/task.ts";
import { DecodeRelay, type RelayObserver } from "../relay/decode-relay.ts";
import type { EventEditor } from "../relay/held-event.ts";
import { streamApis } from "../sse/api.ts";
import type { Worker } from "../workers/worker.ts";
import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import { explainPrefill } from "./explain.ts";
import type { Interruptible } from "./interruptible.ts";
import type { Services } from "./services.ts";
import { usageOf } from "./usage.ts";
import { checkWholeAnswer } from "./whole-answer.ts";

export interface DecodeSideOptions {
  services: Services;
  call: Call;
  worker: Worker;
  leg: Leg;
  wait: Interruptible;
  /** Prefill that is still running; undefined in sequential modes and on aggregated workers. */
  task: PrefillTask | undefined;
  /** What prefill said, when it is done. */
  tail: PrefillTail | undefined;
  choices: number;
  editor: EventEditor | undefined;
  owner: DecodeOwner;
}

/** The attempt whose answer it is. */
export interface DecodeOwner {
  /** A prefill failure of our own making (its deadline) that the heart's error hides. */
  readonly timedOut: Failure | undefined;
  /** See `RelayObserver`. */
  prefillFails(): boolean;
  /** The worker answers, and goes on answering. */
  speaks(now: number): void;
  /** The answer is over for the client: well, with an error frame, or because the client left. */
  decodeEnded(failure: Failure | ClientGone | undefined): void;
}

/** Buffered answers have no limit of their own in the contract; this one only keeps a broken engine from filling memory. */
const ANSWER_BYTES = 268_435_456;

/** A client that has not read is looked at again after so long. */
const STALLED_MS = 1_000;

/** The answering leg of a request: decode's in a split, the only one on an aggregated worker. */
export class DecodeSide implements RelayObserver {
  readonly #o: DecodeSideOptions;
  readonly leg: Leg;
  relay: DecodeRelay | undefined;
  /** The worker refused the connection: nothing was sent, so a hand-off is unread. */
  refused = false;
  #stopLimit: (() => void) | undefined;
  #limitFrom = 0;
  #answered = false;

  constructor(options: DecodeSideOptions) {
    this.#o = options;
    this.leg = options.leg;
  }

  /** An answer is in hand, so it is decided here and in the relay what a failed prefill tail means for it. */
  get answering(): boolean {
    return this.#answered || this.relay?.contentSeen === true;
  }

  /** Sends the leg; resolves when the status may be committed. Rejects with Failure or ClientGone; the legs are then the caller's to close. */
  async stream(): Promise<Answer> {
    const { call, services, wait, task } = this.#o;
    // Where both legs run at once, decode can only speak after prefill's success: that is when its limit begins.
    if (task === undefined || task.outcome?.ok === true) this.#limitFirstToken();
    const head = await this.#open();
    const type = head.headers.get("content-type") ?? "";
    if (type.includes("json")) return await this.#answerWhole(head);
    const { timeouts, limits, lateFailure } = services.config;
    const relay = new DecodeRelay({
      leg: this.leg,
      api: streamApis[call.request.api],
      choices: this.#o.choices,
      task,
      tail: this.#o.tail,
      editor: this.#o.editor,
      clock: services.clock,
      limits: { eventBytes: limits.eventBytes, settleMs: timeouts.settleMs, idleMs: timeouts.idleMs },
      lateFailure,
      mask: services.telemetry.mask,
      observer: this,
    });
    this.relay = relay;
    try {
      await wait.wait(relay.start());
    } catch (error) {
      this.#limitMet();
      throw error;
    }
    // Committed without an answer (many empty chunks): the first one is still due.
    if (relay.contentSeen) this.#limitMet();
    this.#noteCommit();
    if (!services.config.log.prompts) call.forgetBody();
    return { kind: "stream", source: relay, headers: passedHeaders(head.headers) };
  }

  async buffered(): Promise<Answer> {
    this.#limitTotal();
    return await this.#answerWhole(await this.#open());
  }

  /** Prefill has ended well. */
  prefillSucceeded(): void {
    if (this.#o.call.request.stream && this.relay?.contentSeen !== true) this.#limitFirstToken();
  }

  async #answerWhole(head: AnswerHead): Promise<Answer> {
    const { call, wait } = this.#o;
    const { api } = call.request;
    let text: string;
    try {
      const answer = this.leg.text(head, ANSWER_BYTES);
      ({ text } = answer instanceof Promise ? await wait.wait(answer) : answer);
    } finally {
      this.#limitMet();
    }
    checkWholeAnswer(head, text, api);
    this.#answered = true;
    const { task } = this.#o;
    if (task?.outcome === null) await this.#settle(task);
    const tail = this.#o.tail ?? this.#settledTail();
    const body = editAnswer(call.request, text, tail);
    usageOf(call.record, text, api);
    this.#o.owner.decodeEnded(undefined);
    this.#noteCommit();
    return { kind: "buffered", body, headers: passedHeaders(head.headers) };
  }

  /** A finished answer waits for an unsettled tail, at most `settleMs` (input logprobs: as long as prefill takes). */
  async #settle(task: PrefillTask): Promise<void> {
    const { services, wait, call } = this.#o;
    const { settleMs } = services.config.timeouts;
    const needed = call.request.wantsInputLogprobs || this.prefillFails();
    if (settleMs <= 0 && !needed) return;
    const since = services.clock.now();
    await wait.wait(
      new Promise<void>((resolve) => {
        const tooLong = (): void => {
          if (!this.prefillFails()) resolve();
        };
        const stop = needed ? nothing : services.clock.after(settleMs, tooLong);
        task.onSettled(() => {
          stop();
          resolve();
        });
      }),
    );
    const ms = services.clock.now() - since;
    this.settleWaited(ms);
  }

  /** What prefill's tail held, as far as it is known now. Throws prefill's Failure. */
  #settledTail(): PrefillTail | undefined {
    const { task, services, call } = this.#o;
    const outcome = task?.outcome ?? null;
    if (outcome === null) return undefined;
    if (outcome.ok) return outcome.tail;
    const failure = this.explain(outcome.error);
    const { kind } = failure;
    const dispensable = isMerelyLost(kind) && !call.request.wantsInputLogprobs;
    if (dispensable && services.config.lateFailure === "definitive") {
      this.lateFailure(kind, "streaming");
      return undefined;
    }
    throw failure;
  }

  async #open(): Promise<AnswerHead> {
    const { call, services, wait, worker } = this.#o;
    // Of several parts the one that is sent, not one that was reserved for a part without need of it.
    call.record.decode = worker.name;
    call.record.decodeSentAt = services.clock.now();
    let head: AnswerHead;
    try {
      head = await wait.until((resolve, reject) =>
        this.leg.begin(resolve, (failure) => {
          // Also when nobody waits for it any more: the hand-off is still there to be released.
          this.refused = failure.kind === "refused";
          reject(failure);
        }),
      );
    } catch (error) {
      this.#limitMet();
      throw error;
    }
    call.record.decodeHeadersAt = services.clock.now();
    if (head.status >= 200 && head.status < 300) return head;
    try {
      throw statusFailure("decode", head, await wait.wait(this.leg.complaint()));
    } finally {
      this.#limitMet();
    }
  }

  #limitFirstToken(): void {
    const { firstTokenMs } = this.#o.services.config.timeouts;
    if (this.#stopLimit === undefined) this.#limit(firstTokenMs, `No first token within ${firstTokenMs} ms`);
  }

  /** Buffered: dispatch to last byte. */
  #limitTotal(): void {
    const { totalMs } = this.#o.services.config.timeouts;
    this.#limit(totalMs, `No complete answer within ${totalMs} ms`);
  }

  /** Over all attempts together, each counted from its decode's dispatch. 0 = no limit. */
  #limit(ms: number, message: string): void {
    if (ms === 0) return;
    const { call, services, wait } = this.#o;
    this.#limitFrom = services.clock.now();
    const tooLong = (): void => {
      const { relay } = this;
      // The status of one of the legs has come, and its words are bounded by themselves.
      if (this.leg.complaining || this.prefillFails()) return;
      if (relay?.committed !== true) wait.interrupt(timeout(message));
      else if (relay.contentSeen) return;
      else if (relay.waits) relay.stop(timeout(message));
      // The client does not read: it is not decode that keeps it waiting.
      else this.#stopLimit = services.clock.after(STALLED_MS, tooLong);
    };
    this.#stopLimit = services.clock.after(Math.max(1, ms - call.decodeSpentMs), tooLong);
  }

  #limitMet(): void {
    this.#stopLimit?.();
    // Not undefined: a prefill that succeeds later must not start a limit that nobody waits for.
    this.#stopLimit = nothing;
    if (this.#limitFrom > 0) this.#o.call.decodeSpentMs += this.#o.services.clock.now() - this.#limitFrom;
    this.#limitFrom = 0;
  }

  // -- what the relay tells, and asks

  explain(error: unknown): Failure {
    return this.#o.owner.timedOut ?? explainPrefill(error);
  }

  ended(failure: Failure | ClientGone | undefined): void {
    const { call } = this.#o;
    const { record } = call;
    const relay = this.relay;
    this.#limitMet();
    // What the client gets of a part is told by the whole: its own frame may be there before anything is promised, and is a plain error then.
    if (relay !== undefined && !call.isPart) {
      // A short answer is over in the tick that commits it, before `stream` has heard of the commit.
      if (relay.committed && record.status === 0) this.#noteCommit();
      record.errorFrame = failure instanceof Failure;
      const { bytes, blocks } = relay.given();
      record.chunks = blocks;
      // Keep-alive comments may have gone before.
      record.bytesOut += bytes;
    }
    this.#o.owner.decodeEnded(failure);
    call.done(failure);
  }

  prefillFails(): boolean {
    return this.#o.owner.prefillFails();
  }

  /** The client is promised this answer. What a part promises, its whole does not yet. */
  #noteCommit(): void {
    const { call, services } = this.#o;
    if (call.isPart) return;
    call.record.committedAt = services.clock.now();
    call.record.status = 200;
  }

  firstEvent(): void {
    this.leg.firstEventSeen = true;
  }

  speaks(now: number): void {
    this.#o.owner.speaks(now);
  }

  settleWaited(ms: number): void {
    this.#o.call.record.settleWaitMs = ms;
    this.#o.services.telemetry.metrics.settleWait(ms);
  }

  mended(what: "end_mark" | "cut" | "silence" | "error_dropped"): void {
    const { metrics } = this.#o.services.telemetry;
    if (what === "error_dropped") metrics.droppedAfterFinish();
    else metrics.completedByRouter(what === "end_mark" ? "no_end_mark" : what);
  }

  lateFailure(kind: FaultKind, when: "streaming" | "after_end"): void {
    const { record } = this.#o.call;
    record.lateFailure = kind;
    record.lateFailureWhen = when;
    this.#o.services.telemetry.metrics.lateFailure(kind, when);
  }

  usage(data: string): void {
    const { record, request } = this.#o.call;
    usageOf(record, data, request.api);
  }
}

function timeout(message: string): Failure {
  return new Failure("decode_timeout", { status: 504, stage: "decode", kind: "timeout", message });
}

function nothing(): void {}
