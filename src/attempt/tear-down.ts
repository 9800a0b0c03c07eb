import type { LegRequest, SplitPlan } from "../engines/dialect.ts";
import { ClientGone, type Failure } from "../errors/failure.ts";
import type { CloseReason, Leg } from "../legs/leg.ts";
import type { PrefillCompletion } from "../prefill/consume.ts";
import type { PrefillTask } from "../prefill/task.ts";
import { newTraceId } from "../telemetry/ids.ts";
import type { Lease } from "../workers/lease.ts";
import type { Call } from "./call.ts";
import type { DecodeSide } from "./decode-side.ts";
import type { Handoff } from "./handoff.ts";
import { openLeg } from "./open-leg.ts";
import type { Services } from "./services.ts";

/** The longest a decode leg is kept open for a client that has left, only so that the KV blocks are released (contract section 6). */
export const RELEASE_MS = 2_000;

/**
 * A one-token leg that is aborted in its prompt's last step ends as if it had not been: the engine then keeps its blocks for a decode that
 * never comes, until their lease ends (30 s; on a real vLLM pair one hang-up of six during prefill, none with this wait). A longer
 * prefill is cut after it; `deferred` waits for any.
 */
const LAST_STEP_MS = 50;

/** A split attempt as it stands when it is given up. Undefined: that far it has not come. */
export interface Standing {
  services: Services;
  call: Call;
  /** The pool's `cancel`. */
  deferred: boolean;
  concurrent: boolean;
  prefill: Lease;
  decode: Lease;
  plan: SplitPlan | undefined;
  prefillLeg: Leg | undefined;
  side: DecodeSide | undefined;
  completion: Promise<PrefillCompletion> | undefined;
  task: PrefillTask | undefined;
  handoff: Handoff | undefined;
  /** A leg to the decode worker, not opened yet. */
  releaseLeg(request: LegRequest): Leg;
  /** The hand-off that decode has refused, if nobody else has released it. */
  takeUnread(): Handoff | undefined;
  /** A place on another decode worker, for a hand-off that this one has refused. */
  anotherDecode(): Lease | undefined;
}

/**
 * Closes what is open (contract section 6). `anytime`: now (a prefill that runs first and alone: see `LAST_STEP_MS`). `deferred`: both
 * legs stay until decode's first event (buffered: prefill's end), at most `tailMs`. A hand-off that prefill has given always reaches
 * decode (sequential modes), for that is what releases the blocks.
 */
export function tearDown(standing: Standing, why: Failure | ClientGone): void {
  standing.side?.relay?.abandon();
  if (standing.concurrent) closeBoth(standing, why instanceof ClientGone ? "client" : "other-leg");
  else if (why instanceof ClientGone) leaveInTurn(standing);
  else if (standing.side !== undefined) standing.side.leg.close("other-leg");
  else {
    standing.prefillLeg?.close("other-leg");
    abandonLeases(standing);
  }
}

function closeBoth(standing: Standing, reason: CloseReason): void {
  const { services, call, side, prefillLeg, task } = standing;
  const { tailMs } = services.config.timeouts;
  if (standing.deferred && side !== undefined && tailMs > 0 && !side.leg.firstEventSeen) {
    const { stream } = call.request;
    side.leg.linger(reason, tailMs, !stream);
    // A decode that was never there, or is over, has no event to wait for; prefill's transfer may not be aborted all the same.
    if (side.leg.isOver) prefillLeg?.onClosed(services.clock.after(tailMs, () => prefillLeg.close(reason)));
    else side.leg.onClosed(() => prefillLeg?.close(reason));
    if (!stream) task?.onSettled((outcome) => closeBuffered(standing, side.leg, reason, outcome.ok));
  } else {
    side?.leg.close(reason);
    prefillLeg?.close(reason);
  }
  abandonLeases(standing);
}

/**
 * Prefill has ended, and a buffered decode gives no sign of its own that it has the blocks. SGLang's prefill ends with the transfer; where
 * the hand-off is known ahead (vLLM push, Mooncake) it ends before, and blocks that nobody takes wait for their lease.
 */
function closeBuffered({ plan, services }: Standing, leg: Leg, reason: CloseReason, prefilled: boolean): void {
  if (!prefilled || plan?.early?.early !== true) leg.close(reason);
  else leg.onClosed(services.clock.after(RELEASE_MS, () => leg.close(reason)));
}

/** The client has left an attempt whose legs follow one another. */
function leaveInTurn(standing: Standing): void {
  const { side, handoff, completion, prefillLeg } = standing;
  if (side?.leg.begun === true) leaveDecode(standing, side);
  else if (handoff !== undefined) releaseHandoff(standing, handoff);
  else if (completion !== undefined) releaseWhenGiven(standing, completion);
  else {
    prefillLeg?.close("client");
    abandonLeases(standing);
  }
}

/** Decode is read until its first event, by which it has the blocks. One that turns out to refuse the connection has left them where they are. */
function leaveDecode(standing: Standing, side: DecodeSide): void {
  const { services, call } = standing;
  side.leg.linger("client", RELEASE_MS, false);
  side.leg.onClosed(() => {
    const unread = standing.takeUnread();
    const other = unread === undefined ? undefined : standing.anotherDecode();
    if (other !== undefined) releaseUnread(services, call, unread!, other);
  });
}

/** Leases whose legs were never opened; those of open legs are released when the legs close. */
function abandonLeases({ prefillLeg, side, prefill, decode }: Standing): void {
  if (prefillLeg === undefined) prefill.release();
  if (side === undefined) decode.release();
}

/**
 * Prefill runs for nobody. `deferred` waits for its answer as long as a tail may; `anytime` as long as the engine's last step may take,
 * in which it cannot be stopped. A hand-off that comes is released.
 */
function releaseWhenGiven(standing: Standing, completion: Promise<PrefillCompletion>): void {
  const { clock, config } = standing.services;
  const leg = standing.prefillLeg!;
  const { tailMs } = config.timeouts;
  const wait = standing.deferred ? tailMs : Math.min(tailMs, LAST_STEP_MS);
  const stop = wait > 0 ? clock.after(wait, () => leg.close("client")) : nothing;
  const given = completion.then(
    (completed) => {
      stop();
      if (completed.kind !== "handoff") return abandonLeases(standing);
      const { result } = completed;
      // The plan that judged the answer: a dialect may remember parts of it for decode.
      const plan = standing.plan!;
      releaseHandoff(standing, { params: result.disaggregatedParams, tail: result, plan, at: clock.now() });
    },
    () => {
      stop();
      abandonLeases(standing);
    },
  );
  standing.call.background.run(given);
  if (wait <= 0) leg.close("client");
}

/** The release request: decode's body cut to one token, closed at its answer, after two seconds at the latest. */
function releaseHandoff(standing: Standing, handoff: Handoff): void {
  const { services, call, decode } = standing;
  const request = handoff.plan.release?.(handoff.params);
  if (request === undefined) abandonLeases(standing);
  else sendRelease(services, call, standing.releaseLeg(request), decode);
}

/** A hand-off that decode refused and that no further try takes: another decode worker, whose lease this ends, fetches it for nobody. */
export function releaseUnread(services: Services, call: Call, handoff: Handoff, decode: Lease): void {
  const request = handoff.plan.release?.(handoff.params);
  if (request === undefined) decode.release();
  else sendRelease(services, call, openLeg(services, call, "decode", decode.worker, request, newTraceId()), decode);
}

function sendRelease(services: Services, call: Call, leg: Leg, decode: Lease): void {
  leg.onClosed(() => decode.release());
  const stop = services.clock.after(RELEASE_MS, () => leg.close("client"));
  call.record.handoffReleased = true;
  services.telemetry.metrics.handoffReleased();
  call.background.run(
    leg.open().then(
      () => {
        stop();
        leg.close("client");
      },
      () => {
        stop();
        leg.close("client");
        decode.release();
      },
    ),
  );
}

function nothing(): void {}
