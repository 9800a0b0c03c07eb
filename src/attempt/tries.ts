import { ClientGone, Failure } from "../errors/failure.ts";
import { backoffMs } from "../workers/retry-budget.ts";
import type { AlreadyTried } from "../workers/split-choice.ts";
import type { Worker } from "../workers/worker.ts";
import type { Call } from "./call.ts";
import type { Handoff } from "./handoff.ts";
import { Interruptible } from "./interruptible.ts";
import type { Services } from "./services.ts";
import type { SplitAttempt } from "./split-attempt.ts";

/** What an attempt went to, and what it left behind. */
export interface Tried {
  /** Undefined on one worker alone. */
  prefill: Worker | undefined;
  decode: Worker;
  split: SplitAttempt | undefined;
}

/** A hand-off that decode has not read, and the worker it came from. */
export interface Given {
  handoff: Handoff;
  prefill: Worker;
}

/** What retries have to know of a request. */
export type TriedCall = Pick<Call, "statusCommitted" | "stopped" | "onStop" | "freshConnections">;

const STATUSES = new Set([502, 503, 504]);
/** A request that has brought down so many workers is not tried on another one. */
const FELLED = 2;

/** Nearly every request's set: one for all of them. */
const NOBODY: ReadonlySet<Worker> = new Set();

/**
 * The retries of one request (contract: `retries`; only before the status is committed). It remembers who failed, decides whether and
 * where to try again, and in the end whose fault an ambiguous decode 5xx was.
 */
export class Tries {
  readonly #services: Services;
  readonly #call: TriedCall;
  /** Workers not to be chosen again; by preference only for those in `#others`. */
  avoidPrefill = NOBODY;
  avoidDecode = NOBODY;
  /** Must the failed leg go to another worker? Then no other worker means no other try. */
  onlyOthers = false;
  /** Nobody who has failed the request is good enough yet. */
  onlyUntried = false;
  /** No worker is usable: those that are worth a try are tried. */
  lastResort = false;
  keepDecode: Worker | undefined;
  given: Given | undefined;
  /** The failure that stands when no further way is found. */
  last: Failure | undefined;
  #count = 0;
  #pullRetried = false;
  #felled = NOBODY;
  #suspects: { prefill: Worker; decode: Worker } | undefined;

  constructor(services: Services, call: TriedCall) {
    this.#services = services;
    this.#call = call;
  }

  /** Those who have failed this request; undefined where one of them is kept all the same: decode after a failed pull, prefill's hand-off. */
  get tried(): AlreadyTried | undefined {
    if (this.last === undefined || this.keepDecode !== undefined) return undefined;
    if (this.given !== undefined && !this.onlyUntried) return undefined;
    return { prefill: this.avoidPrefill, decode: this.avoidDecode, answered: this.onlyOthers };
  }

  /** An attempt has answered: an earlier decode 5xx was a failed pull from the prefill worker of that time. */
  succeeded(): void {
    this.#suspects?.prefill.failed(this.#services.clock.now());
    this.#suspects = undefined;
  }

  /** Resolves when another try may be made. Rejects with what the client gets. */
  async again(error: unknown, tried: Tried, takeBudget: (now: number) => boolean): Promise<void> {
    const { clock, config, random, telemetry } = this.#services;
    const failure = error instanceof ClientGone || error instanceof Failure ? error : undefined;
    const earlier = this.#suspects;
    this.#suspects = undefined;
    if (earlier !== undefined && failure instanceof Failure) earlier.decode.failed(clock.now());
    const open = tried.split?.decodeFaultOpen === true && tried.prefill !== undefined;
    if (!(failure instanceof Failure)) throw error;
    this.last = failure;
    const allowed =
      this.#count < config.retries.maxRetries && !this.#call.statusCommitted && this.#call.stopped === undefined;
    const delay = allowed ? this.#plan(failure, tried, open) : undefined;
    if (delay === undefined || !takeBudget(clock.now())) {
      if (open && earlier === undefined) tried.decode.failed(clock.now());
      throw failure;
    }
    // Only a retry that keeps decode can tell whose fault it was.
    if (open && tried.prefill !== undefined && this.keepDecode !== undefined) {
      this.#suspects = { prefill: tried.prefill, decode: tried.decode };
    } else if (open) tried.decode.failed(clock.now());
    this.#count++;
    if (failure.kind === "reset") this.#call.freshConnections = true;
    telemetry.metrics.retry(failure.kind ?? "content", failure.stage);
    if (delay !== "backoff") return;
    await this.#pause(backoffMs(this.#count, config.retries, random));
    // A keep-alive comment has promised status 200 meanwhile: nothing is tried again.
    if (this.#call.statusCommitted) throw failure;
  }

  /** No other way was found after a failure: it stands, and an open question is closed. */
  exhausted(): void {
    this.#suspects?.decode.failed(this.#services.clock.now());
    this.#suspects = undefined;
  }

  /** Whether and how to go on; fills in who is to be avoided. */
  #plan(failure: Failure, tried: Tried, open: boolean): "backoff" | "now" | undefined {
    this.keepDecode = undefined;
    this.given = undefined;
    this.onlyOthers = false;
    const { kind, status } = failure;
    if (kind === undefined || kind === "timeout") {
      return failure.code === "invalid_handoff" ? this.#prefillAnew(tried, true) : undefined;
    }
    if (kind === "status" || kind === "content") {
      if (failure.code === "invalid_handoff") return this.#prefillAnew(tried, true);
      if (open && status === 500) {
        // A failed KV pull: once more with a fresh prefill, from another worker if there is one.
        if (this.#pullRetried) return undefined;
        this.#pullRetried = true;
        this.keepDecode = tried.decode;
        return this.#prefillAnew(tried, false);
      }
      if (!STATUSES.has(status) && !(status === 429 && this.#services.config.retries.on429)) return undefined;
      this.onlyOthers = true;
      this.#avoid(failure, tried);
      return "now";
    }
    const blamed = failure.stage === "prefill" ? tried.prefill : tried.decode;
    if (kind !== "refused" && blamed !== undefined) {
      this.#felled = and(this.#felled, blamed);
      if (this.#felled.size >= FELLED) return undefined;
    }
    this.#avoid(failure, tried);
    const unread = tried.split?.unread;
    if (failure.stage === "decode" && unread !== undefined && tried.prefill !== undefined) {
      this.given = { handoff: unread, prefill: tried.prefill };
    }
    // uvicorn closes idle connections; a reset before any byte is the rule there, not distress.
    return kind === "reset" ? "now" : "backoff";
  }

  #prefillAnew(tried: Tried, onlyOthers: boolean): "now" {
    if (tried.prefill !== undefined) this.avoidPrefill = and(this.avoidPrefill, tried.prefill);
    this.onlyOthers = onlyOthers;
    return "now";
  }

  #avoid(failure: Failure, tried: Tried): void {
    if (failure.stage === "prefill" && tried.prefill !== undefined)
      this.avoidPrefill = and(this.avoidPrefill, tried.prefill);
    else this.avoidDecode = and(this.avoidDecode, tried.decode);
  }

  async #pause(ms: number): Promise<void> {
    const wait = new Interruptible();
    const offStop = this.#call.onStop((why) => wait.interrupt(why));
    let stop: () => void = () => {};
    try {
      await wait.wait(
        new Promise<void>((resolve) => {
          stop = this.#services.clock.after(ms, resolve);
        }),
      );
    } finally {
      stop();
      offStop();
    }
  }
}

function and(workers: ReadonlySet<Worker>, one: Worker): ReadonlySet<Worker> {
  return new Set(workers).add(one);
}
