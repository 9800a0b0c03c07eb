import type { Dialect, LegRequest, SplitPlan } from "../engines/dialect.ts";
import { prefillSource } from "../engines/prefill-source.ts";
import { dialectFor } from "../engines/registry.ts";
import { eventEdits } from "../engines/response-edits.ts";
import { type ClientGone, Failure } from "../errors/failure.ts";
import { Pieces } from "../json/pieces.ts";
import type { Leg } from "../legs/leg.ts";
import { consumePrefillStream, type PrefillCompletion } from "../prefill/consume.ts";
import type { EngineOutput } from "../prefill/output.ts";
import type { PrefillOutcome, PrefillTask } from "../prefill/task.ts";
import { choose } from "../workers/choose.ts";
import type { Lease } from "../workers/lease.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker } from "../workers/worker.ts";
import type { Answer } from "./answer.ts";
import { blame, isOpenDecodeFault, verdict } from "./blame.ts";
import type { Call } from "./call.ts";
import { type DecodeOwner, DecodeSide } from "./decode-side.ts";
import { explain, explainPrefill } from "./explain.ts";
import type { Handoff } from "./handoff.ts";
import { Interruptible } from "./interruptible.ts";
import { openLeg } from "./open-leg.ts";
import type { Services } from "./services.ts";
import { RELEASE_MS, tearDown } from "./tear-down.ts";

/** One try at answering a split request: one prefill worker, one decode worker, one set of ids. */
export class SplitAttempt implements DecodeOwner {
  readonly #services: Services;
  readonly #call: Call;
  readonly #pool: Pool;
  readonly #prefill: Lease;
  readonly #decode: Lease;
  readonly #id: string;
  readonly #refusedBy: ReadonlySet<Worker>;
  readonly #dialect: Dialect;
  readonly #wait = new Interruptible();
  #plan: SplitPlan | undefined;
  #prefillLeg: Leg | undefined;
  #decodeSide: DecodeSide | undefined;
  #completion: Promise<PrefillCompletion> | undefined;
  #task: PrefillTask | undefined;
  #stopPrefillDeadline: (() => void) | undefined;
  #prefillBlamed = false;
  #offStop: () => void = nothing;
  #handoff: Handoff | undefined;
  /** Another attempt may have begun: the record's times are no longer this one's. */
  #givenUp = false;
  timedOut: Failure | undefined;
  /** Decode answered 5xx before an answer: whose fault that was shows only in the retry (a dead prefill makes every decode answer 500). */
  decodeFaultOpen = false;

  /** `refusedBy`: decode workers that this request has been tried on in vain. */
  constructor(
    services: Services,
    call: Call,
    pool: Pool,
    prefill: Lease,
    decode: Lease,
    id: string,
    refusedBy: ReadonlySet<Worker>,
  ) {
    this.#refusedBy = refusedBy;
    this.#services = services;
    this.#call = call;
    this.#pool = pool;
    this.#prefill = prefill;
    this.#decode = decode;
    this.#id = id;
    this.#dialect = dialectFor(pool.engine, pool.connector);
  }

  /**
   * A hand-off that nobody has read: decode refused the connection, so nothing was sent. Another decode may still use it. Where both legs
   * run at once there is none: prefill's leg ends with the attempt, and its room with it.
   */
  get unread(): Handoff | undefined {
    return !this.#dialect.concurrent && this.#decodeSide?.refused === true ? this.#handoff : undefined;
  }

  /** The same, to be released: once, whoever comes first. */
  takeUnread(): Handoff | undefined {
    const { unread } = this;
    if (unread !== undefined) this.#handoff = undefined;
    return unread;
  }

  /** Prefill is done with unless `given` holds what an earlier attempt got and could not deliver. Rejects with Failure or ClientGone. */
  async run(given?: Handoff): Promise<Answer> {
    this.#offStop = this.#call.onStop((why) => this.#stopped(why));
    try {
      const handoff = given ?? (await this.#runPrefill());
      if ("output" in handoff) return this.#terminal(handoff.output);
      this.#handoff = handoff;
      return await this.#runDecode(handoff);
    } catch (error) {
      const failure = this.#call.stopped ?? this.timedOut ?? explain(error);
      this.#failed(failure);
      throw failure;
    }
  }

  // -- prefill

  async #runPrefill(): Promise<Handoff | { output: EngineOutput }> {
    const { clock, config } = this.#services;
    const { record, request } = this.#call;
    const worker = this.#prefill.worker;
    const { facts } = this.#services;
    if (facts !== undefined && this.#dialect.needsIntroduction?.(worker.target) === true) {
      await this.#wait.wait(facts.introduce(worker));
    }
    const plan = this.#dialect.plan(request, worker.target, this.#id);
    this.#plan = plan;
    const leg = this.#leg("prefill", plan.prefill);
    // The leg has it; the plan is kept for decode and longer.
    plan.prefill.body = Pieces.NONE;
    this.#prefillLeg = leg;
    record.prefillSentAt = clock.now();
    this.#armPrefillDeadline();
    this.#completion = consumePrefillStream(prefillSource(plan, leg.answer(config.limits.tailBytes)), {
      guard: this.#prefill,
      background: this.#call.background,
      clock,
      limits: { settleMs: config.timeouts.settleMs },
    });
    const completion = plan.early === undefined ? await this.#wait.wait(this.#completion) : await this.#completion;
    if (completion.completion !== undefined) {
      this.#task = completion.completion;
      this.#task.onSettled((outcome) => this.#tailSettled(outcome));
    } else {
      this.#stopPrefillDeadline?.();
      record.prefillDoneAt = clock.now();
      worker.succeeded(record.prefillDoneAt);
    }
    if (completion.kind === "terminal") return { output: completion.output };
    const { result } = completion;
    return { params: result.disaggregatedParams, tail: result, plan, at: clock.now() };
  }

  /** `prefillMs`: from dispatch to the complete answer, over all attempts together. */
  #armPrefillDeadline(): void {
    const { clock, config } = this.#services;
    const { prefillMs } = config.timeouts;
    if (prefillMs === 0) return;
    const from = clock.now();
    const stop = clock.after(Math.max(1, prefillMs - this.#call.prefillSpentMs), () => {
      // The status of one of the legs has come, and its words are bounded by themselves.
      if (this.prefillFails() || this.#decodeSide?.leg.complaining === true) return;
      const failure = new Failure("prefill_timeout", {
        status: 504,
        stage: "prefill",
        kind: "timeout",
        message: `Prefill was not done within ${prefillMs} ms`,
      });
      this.timedOut = failure;
      this.#blameForSilence(failure);
      this.#wait.interrupt(failure);
      this.#prefillLeg?.close("deadline");
    });
    this.#stopPrefillDeadline = () => {
      stop();
      this.#stopPrefillDeadline = undefined;
      this.#call.prefillSpentMs += clock.now() - from;
    };
  }

  #tailSettled(outcome: PrefillOutcome): void {
    this.#stopPrefillDeadline?.();
    const now = this.#services.clock.now();
    if (!this.#givenUp) this.#call.record.prefillDoneAt = now;
    if (outcome.ok) {
      this.#prefill.worker.succeeded(now);
      this.#decodeSide?.prefillSucceeded();
      return;
    }
    const failure = this.timedOut ?? explainPrefill(outcome.error);
    // A tail that we cut ourselves says nothing about the worker.
    if (this.#prefillLeg?.cutHere !== true) {
      this.#doubtPrefill(failure);
      this.#blamePrefill(failure);
    }
    // Once decode has said something, the relay decides what a lost tail means.
    if (this.#decodeSide?.answering !== true) this.#wait.interrupt(failure);
  }

  #terminal(output: EngineOutput): Answer {
    const { request } = this.#call;
    this.#call.answeredByPrefill();
    this.#offStop();
    this.#decode.release();
    if (!request.stream) {
      return {
        kind: "buffered",
        body: this.#dialect.terminalAnswer(request, output),
        headers: [],
      };
    }
    return { kind: "text-stream", text: this.#dialect.terminalStream(request, output), headers: [] };
  }

  // -- decode

  async #runDecode(handoff: Handoff): Promise<Answer> {
    const { clock, config } = this.#services;
    const { handoffMs } = config.timeouts;
    if (!this.#dialect.concurrent && handoffMs > 0 && clock.now() - handoff.at > handoffMs) {
      // Read after its lease, a hand-off gives wrong text with status 200 (wire facts, vLLM).
      throw new Failure("invalid_handoff", {
        status: 502,
        stage: "handoff",
        message: `The hand-off is older than ${handoffMs} ms`,
      });
    }
    const side = new DecodeSide({
      services: this.#services,
      call: this.#call,
      worker: this.#decode.worker,
      leg: this.#leg("decode", handoff.plan.decode(handoff.params)),
      wait: this.#wait,
      task: this.#task,
      tail: this.#task === undefined ? handoff.tail : undefined,
      choices: 1,
      editor: this.#call.request.stream ? eventEdits(this.#call.request) : undefined,
      owner: this,
    });
    this.#decodeSide = side;
    side.leg.onClosed(() => this.#decode.release());
    return this.#call.request.stream ? side.stream() : side.buffered();
  }

  prefillFails(): boolean {
    return this.#prefillLeg?.complaining === true;
  }

  speaks(now: number): void {
    this.#decode.speaks(now);
  }

  decodeEnded(failure: Failure | ClientGone | undefined): void {
    const now = this.#services.clock.now();
    const side = this.#decodeSide!;
    this.#offStop();
    if (failure === undefined) {
      this.#decode.worker.succeeded(now);
      side.leg.finish(RELEASE_MS);
      this.#leaveTail();
    } else {
      this.#doubtPrefill(failure);
      if (failure instanceof Failure && failure.stage === "decode")
        blame(this.#decode.worker, failure, now, this.#call.bufferedSince);
      this.#tearDown(failure);
    }
  }

  /** A prefill tail may outlive the response by `tailMs`; cutting it then is neutral for the worker. */
  #leaveTail(): void {
    const { clock, config, telemetry } = this.#services;
    const leg = this.#prefillLeg;
    const task = this.#task;
    if (leg === undefined || task === undefined || task.outcome !== null) return;
    const { record } = this.#call;
    telemetry.drainOpened(record);
    const stop =
      config.timeouts.tailMs > 0 ? clock.after(config.timeouts.tailMs, () => leg.close("deadline")) : nothing;
    task.onSettled((outcome) => {
      stop();
      record.tailEndedAt = clock.now();
      // Nobody can be told any more but those who run the fleet; a tail that was cut here has not failed.
      if (!outcome.ok && !leg.cutHere) {
        const kind = (this.timedOut ?? explainPrefill(outcome.error)).kind ?? "content";
        record.lateFailure = kind;
        record.lateFailureWhen = "after_end";
        telemetry.metrics.lateFailure(kind, "after_end");
      }
      telemetry.drainClosed(record, leg.closed === "deadline");
    });
    if (config.timeouts.tailMs === 0) leg.close("deadline");
  }

  // -- ending early

  #stopped(why: ClientGone | Failure): void {
    const relay = this.#decodeSide?.relay;
    if (relay?.committed === true) relay.stop(why);
    else this.#wait.interrupt(why);
  }

  #failed(failure: Failure | ClientGone): void {
    this.#givenUp = true;
    this.#offStop();
    const now = this.#services.clock.now();
    this.#doubtPrefill(failure);
    if (failure instanceof Failure) {
      if (failure.stage === "decode") {
        this.decodeFaultOpen = isOpenDecodeFault(failure);
        if (!this.decodeFaultOpen) blame(this.#decode.worker, failure, now, this.#call.bufferedSince);
      } else if (this.#task === undefined && failure.kind !== undefined) {
        // Without a kind it is no worker's doing: the router shuts down, or was too slow for a hand-off.
        this.#blamePrefill(failure);
      }
    }
    this.#tearDown(failure);
  }

  #tearDown(why: Failure | ClientGone): void {
    // Nobody waits for prefill any more, so it can be late for nobody.
    this.#stopPrefillDeadline?.();
    tearDown(
      {
        services: this.#services,
        call: this.#call,
        deferred: this.#pool.cancel === "deferred",
        concurrent: this.#dialect.concurrent,
        prefill: this.#prefill,
        decode: this.#decode,
        plan: this.#plan,
        prefillLeg: this.#prefillLeg,
        side: this.#decodeSide,
        completion: this.#completion,
        task: this.#task,
        handoff: this.#handoff,
        releaseLeg: (request) => this.#leg("decode", request),
        takeUnread: () => this.takeUnread(),
        anotherDecode: () => this.#anotherDecode(),
      },
      why,
    );
  }

  #anotherDecode(): Lease | undefined {
    const now = this.#services.clock.now();
    const exclude = new Set(this.#refusedBy).add(this.#decode.worker);
    return choose(this.#pool, "decode", this.#call.choice, { now, exclude });
  }

  // -- small things

  /**
   * Prefill is not done in time. Where both legs run at once each waits for the other, so a decode that hangs looks just like this; if
   * every such timeout counted against prefill, one hanging decode would open the breakers of all prefill workers. Whoever has answered
   * others since is not the one that hangs.
   */
  #blameForSilence(failure: Failure): void {
    if (!this.#dialect.concurrent || this.#decodeSide?.answering === true) {
      this.#blamePrefill(failure);
      return;
    }
    const since = this.#call.record.prefillSentAt;
    if (this.#prefill.worker.answeredSince(since)) this.#prefillBlamed = true;
    else this.#blamePrefill(failure);
    const decode = this.#decode.worker;
    if (!decode.answeredSince(since)) decode.failed(this.#services.clock.now());
  }

  /** It may be another process by now. What a worker answers to a request that it does not like says nothing of the kind. */
  #doubtPrefill(failure: Failure | ClientGone): void {
    if (failure instanceof Failure && failure.kind !== undefined && verdict(failure) === "failed")
      this.#services.facts?.doubt(this.#prefill.worker);
  }

  #blamePrefill(failure: Failure): void {
    if (this.#prefillBlamed) return;
    this.#prefillBlamed = true;
    blame(this.#prefill.worker, failure, this.#services.clock.now());
  }

  #leg(role: "prefill" | "decode", request: LegRequest): Leg {
    const { worker } = role === "prefill" ? this.#prefill : this.#decode;
    return openLeg(this.#services, this.#call, role, worker, request, this.#id);
  }
}

function nothing(): void {}
