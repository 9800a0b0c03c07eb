import type { Dialect, LegRequest, SplitPlan } from "../engines/dialect.ts";
import { prefillSource } from "../engines/prefill-source.ts";
import { dialectFor } from "../engines/registry.ts";
import { eventEdits } from "../engines/response-edits.ts";
import { ClientGone, Failure } from "../errors/failure.ts";
import type { Leg } from "../legs/leg.ts";
import { consumePrefillStream, type PrefillCompletion } from "../prefill/consume.ts";
import type { EngineOutput, RawJson } from "../prefill/output.ts";
import type { PrefillOutcome, PrefillTail, PrefillTask } from "../prefill/task.ts";
import type { Lease } from "../workers/lease.ts";
import type { Pool } from "../workers/pool.ts";
import type { Answer } from "./answer.ts";
import { blame, verdict } from "./blame.ts";
import type { Call } from "./call.ts";
import { DecodeSide } from "./decode-side.ts";
import { explain, explainPrefill } from "./explain.ts";
import { Interruptible } from "./interruptible.ts";
import { openLeg } from "./open-leg.ts";
import type { Services } from "./services.ts";

/** A hand-off that prefill gave and decode has not read yet (sequential modes). */
export interface Handoff {
  params: RawJson;
  tail: PrefillTail;
  plan: SplitPlan;
  at: number;
}

/** The longest a decode leg is kept open for a client that has left, only so that the KV blocks are released (contract section 6). */
const RELEASE_MS = 2_000;

/**
 * A one-token leg that is aborted in its prompt's last step ends as if it had not been: the engine then keeps its blocks for a decode that
 * never comes, until their lease ends (30 s; on a real vLLM pair one hang-up of six during prefill, none with this wait). A longer
 * prefill is cut after it; `deferred` waits for any.
 */
const LAST_STEP_MS = 50;

/** One try at answering a split request: one prefill worker, one decode worker, one set of ids. */
export class SplitAttempt {
  readonly #services: Services;
  readonly #call: Call;
  readonly #pool: Pool;
  readonly #prefill: Lease;
  readonly #decode: Lease;
  readonly #id: string;
  readonly #dialect: Dialect;
  readonly #wait = new Interruptible();
  #plan: SplitPlan | undefined;
  #prefillLeg: Leg | undefined;
  #decodeSide: DecodeSide | undefined;
  #completion: Promise<PrefillCompletion> | undefined;
  #task: PrefillTask | undefined;
  #timedOut: Failure | undefined;
  #stopPrefillDeadline: (() => void) | undefined;
  #prefillBlamed = false;
  #offStop: () => void = nothing;
  #handoff: Handoff | undefined;
  /** Decode answered 5xx before an answer: whose fault that was shows only in the retry (a dead prefill makes every decode answer 500). */
  decodeFaultOpen = false;

  constructor(services: Services, call: Call, pool: Pool, prefill: Lease, decode: Lease, id: string) {
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

  /** Prefill is done with unless `given` holds what an earlier attempt got and could not deliver. Rejects with Failure or ClientGone. */
  async run(given?: Handoff): Promise<Answer> {
    this.#offStop = this.#call.onStop((why) => this.#stopped(why));
    try {
      const handoff = given ?? (await this.#runPrefill());
      if ("output" in handoff) return this.#terminal(handoff.output);
      this.#handoff = handoff;
      return await this.#runDecode(handoff);
    } catch (error) {
      const failure = this.#call.stopped ?? this.#timedOut ?? explain(error);
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
      const failure = new Failure("prefill_timeout", {
        status: 504,
        stage: "prefill",
        kind: "timeout",
        message: `Prefill was not done within ${prefillMs} ms`,
      });
      this.#timedOut = failure;
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
    this.#call.record.prefillDoneAt = now;
    if (outcome.ok) {
      this.#prefill.worker.succeeded(now);
      this.#decodeSide?.prefillSucceeded();
      return;
    }
    const failure = this.#timedOut ?? explainPrefill(outcome.error);
    this.#services.facts?.doubt(this.#prefill.worker);
    // A tail that we cut ourselves says nothing about the worker.
    if (this.#prefillLeg?.closed === undefined) this.#blamePrefill(failure);
    // Once decode has said something, the relay decides what a lost tail means.
    if (this.#decodeSide?.answering !== true) this.#wait.interrupt(failure);
  }

  #terminal(output: EngineOutput): Answer {
    const { request, record } = this.#call;
    record.path = "prefill-only";
    record.decode = "";
    this.#offStop();
    this.#decode.release();
    if (!request.stream) {
      return {
        kind: "buffered",
        body: this.#dialect.terminalAnswer(request, output),
        contentType: "application/json",
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
      prefillOverride: () => this.#timedOut,
      ended: (failure) => this.#decodeEnded(failure),
    });
    this.#decodeSide = side;
    side.leg.onClosed(() => this.#decode.release());
    return this.#call.request.stream ? side.stream() : side.buffered();
  }

  /** The answer is over for the client: well, with an error frame, or because the client left. */
  #decodeEnded(failure: Failure | ClientGone | undefined): void {
    const now = this.#services.clock.now();
    const side = this.#decodeSide!;
    this.#offStop();
    if (failure === undefined) {
      this.#decode.worker.succeeded(now);
      side.leg.finish(RELEASE_MS);
      this.#leaveTail();
    } else {
      if (failure instanceof Failure) this.#services.facts?.doubt(this.#prefill.worker);
      if (failure instanceof Failure && failure.stage === "decode") blame(this.#decode.worker, failure, now);
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
    task.onSettled(() => {
      stop();
      record.tailEndedAt = clock.now();
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
    this.#offStop();
    const now = this.#services.clock.now();
    if (failure instanceof Failure) {
      this.#services.facts?.doubt(this.#prefill.worker);
      if (failure.stage === "decode") {
        this.decodeFaultOpen = isOpenDecodeFault(failure);
        if (!this.decodeFaultOpen) blame(this.#decode.worker, failure, now);
      } else if (this.#task === undefined && failure.kind !== undefined) {
        // Without a kind it is no worker's doing: the router shuts down, or was too slow for a hand-off.
        this.#blamePrefill(failure);
      }
    }
    this.#tearDown(failure);
  }

  /**
   * Closes what is open. `anytime`: now (a prefill that runs first and alone: see `LAST_STEP_MS`). `deferred`: both legs stay until decode's first event (buffered: prefill's end), at most
   * `tailMs`. A hand-off that prefill has given always reaches decode (sequential modes), for that is what releases the blocks.
   */
  #tearDown(why: Failure | ClientGone): void {
    const gone = why instanceof ClientGone;
    const reason = gone ? "client" : "other-leg";
    const side = this.#decodeSide;
    const prefillLeg = this.#prefillLeg;
    // Nobody waits for prefill any more, so it can be late for nobody.
    this.#stopPrefillDeadline?.();
    side?.relay?.abandon();
    if (!this.#dialect.concurrent) {
      if (side !== undefined) {
        if (gone) side.leg.linger(reason, RELEASE_MS, false);
        else side.leg.close(reason);
        return;
      }
      if (gone && this.#handoff !== undefined) this.#releaseHandoff(this.#handoff);
      else if (gone && this.#completion !== undefined) this.#releaseWhenGiven();
      else {
        prefillLeg?.close(reason);
        this.#abandonLeases();
      }
      return;
    }
    const { tailMs } = this.#services.config.timeouts;
    if (this.#pool.cancel === "deferred" && side !== undefined && tailMs > 0 && !side.leg.firstEventSeen) {
      side.leg.linger(reason, tailMs, !this.#call.request.stream);
      side.leg.onClosed(() => prefillLeg?.close(reason));
      if (!this.#call.request.stream)
        this.#task?.onSettled((outcome) => this.#closeBuffered(side.leg, reason, outcome.ok));
    } else {
      side?.leg.close(reason);
      prefillLeg?.close(reason);
    }
    this.#abandonLeases();
  }

  /**
   * Prefill has ended, and a buffered decode gives no sign of its own that it has the blocks. SGLang's prefill ends with the transfer; where
   * the hand-off is known ahead (vLLM push, Mooncake) it ends before, and blocks that nobody takes wait for their lease.
   */
  #closeBuffered(leg: Leg, reason: "client" | "other-leg", prefilled: boolean): void {
    if (!prefilled || this.#plan?.early?.early !== true) leg.close(reason);
    else leg.onClosed(this.#services.clock.after(RELEASE_MS, () => leg.close(reason)));
  }

  /** Leases whose legs were never opened; those of open legs are released when the legs close. */
  #abandonLeases(): void {
    if (this.#prefillLeg === undefined) this.#prefill.release();
    if (this.#decodeSide === undefined) this.#decode.release();
  }

  /**
   * Prefill runs for nobody. `deferred` waits for its answer as long as a tail may; `anytime` as long as the engine's last step may take,
   * in which it cannot be stopped. A hand-off that comes is released.
   */
  #releaseWhenGiven(): void {
    const { clock, config } = this.#services;
    const leg = this.#prefillLeg!;
    const { tailMs } = config.timeouts;
    const wait = this.#pool.cancel === "deferred" ? tailMs : Math.min(tailMs, LAST_STEP_MS);
    const stop = wait > 0 ? clock.after(wait, () => leg.close("client")) : nothing;
    const given = this.#completion!.then(
      (completion) => {
        stop();
        if (completion.kind !== "handoff") return this.#abandonLeases();
        const { result } = completion;
        // The plan that judged the answer: a dialect may remember parts of it for decode.
        this.#releaseHandoff({ params: result.disaggregatedParams, tail: result, plan: this.#plan!, at: clock.now() });
      },
      () => {
        stop();
        this.#abandonLeases();
      },
    );
    this.#call.background.run(given);
    if (wait <= 0) leg.close("client");
  }

  /** The release request: decode's body cut to one token, closed at its answer, after two seconds at the latest. */
  #releaseHandoff(handoff: Handoff): void {
    const request = handoff.plan.release?.(handoff.params);
    if (request === undefined) {
      this.#abandonLeases();
      return;
    }
    const { clock, telemetry } = this.#services;
    const leg = this.#leg("decode", request);
    leg.onClosed(() => this.#decode.release());
    const stop = clock.after(RELEASE_MS, () => leg.close("client"));
    this.#call.record.handoffReleased = true;
    telemetry.metrics.handoffReleased();
    this.#call.background.run(
      leg.open().then(
        () => {
          stop();
          leg.close("client");
        },
        () => {
          stop();
          leg.close("client");
          this.#decode.release();
        },
      ),
    );
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

/** A decode 5xx in a split request may be a failed KV pull, which is prefill's fault; 503 is back-pressure. */
function isOpenDecodeFault(failure: Failure): boolean {
  return (failure.kind === "status" || failure.kind === "content") && verdict(failure) === "failed";
}

function nothing(): void {}
