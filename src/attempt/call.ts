import type { GenerationRequest } from "../engines/dialect.ts";
import { ClientGone, type Failure } from "../errors/failure.ts";
import type { JsonObject } from "../json/scan.ts";
import type { SharedHeaders } from "../legs/shared-headers.ts";
import type { Visit } from "../regions/visit.ts";
import type { RequestRecord } from "../telemetry/record.ts";
import type { ChoiceInput } from "../workers/policy.ts";

/** The platform's way to keep work alive after the response (waitUntil). Made per request or per process, as the platform has it. */
export interface BackgroundPort {
  /** Keeps `task` alive, which never rejects. Called before the response is over. */
  run(task: Promise<unknown>): void;
  /** The response is over and the record of it complete: a platform without timers of its own sends now what has gathered. */
  ended?(): void;
}

/**
 * One client request on its walk: what was asked, whether the client is still there, and what happens when it is over. Attempts come and
 * go; the call stays.
 */
export class Call {
  readonly request: GenerationRequest;
  /** Headers both legs share, made once (contract section 7). */
  readonly outgoing: SharedHeaders;
  readonly record: RequestRecord;
  choice: ChoiceInput;
  readonly background: BackgroundPort;
  /** Where the client is and where its requests may go; undefined where there is nothing to choose. */
  visit: Visit | undefined;
  /** The client asked for `Server-Timing` (`x-router-timing: 1`). */
  wantsTiming = false;
  /** `x-ratelimit-*` of the client's own key; they stand in for an engine's. */
  limits: readonly (readonly [string, string])[] = [];
  /** What legs have used up of their limits in earlier attempts: a limit holds for all of them together, and only for its own leg. */
  prefillSpentMs = 0;
  decodeSpentMs = 0;
  /** A connection has broken before its answer, perhaps an idle one that the engine closed: later attempts take new ones. */
  freshConnections = false;
  /** Why the call was stopped from outside: its client left, or the router shuts down. */
  stopped: ClientGone | Failure | undefined;
  /** What the response ended with; undefined: well, or not yet. */
  outcome: Failure | ClientGone | undefined;
  /** Prefill has given the whole answer. */
  prefillOnly = false;
  /** The whole of which this is a part (`part`). */
  #whole: Call | undefined;
  #statusCommitted = false;
  #stopListeners: (((why: ClientGone | Failure) => void) | undefined)[] = [];
  #doneListeners: (() => void)[] = [];
  #done = false;

  constructor(options: {
    request: GenerationRequest;
    outgoing: SharedHeaders;
    record: RequestRecord;
    choice: ChoiceInput;
    background: BackgroundPort;
  }) {
    this.request = options.request;
    this.outgoing = options.outgoing;
    this.record = options.record;
    this.choice = options.choice;
    this.background = options.background;
  }

  /**
   * One part of a request that is split into several (`fanout/`): a request, deadlines and an end of its own; record, headers and
   * background are shared. Whoever makes it stops it when the whole is stopped. How the whole ends is not a part's to say.
   */
  part(request: GenerationRequest, choice: ChoiceInput): Call {
    const { outgoing, record, background } = this;
    const part = new Call({ request, outgoing, record, choice, background });
    part.#whole = this;
    part.visit = this.visit;
    return part;
  }

  /**
   * The status is committed and nothing will be sent again: lets go of the body for as long as its answer streams. A thousand open streams
   * with prompts of 64 KB would hold 64 MB of them. A part's body is its whole's, which may still be tried again for others.
   */
  forgetBody(): void {
    if (this.#whole !== undefined) return;
    this.request.doc = NO_BODY;
    this.choice = { tokens: this.choice.tokens, prompt: noText, session: noText };
  }

  /** When decode was sent what has a buffered answer (`blame`); undefined of a stream. */
  get bufferedSince(): number | undefined {
    return this.request.stream ? undefined : this.record.decodeSentAt;
  }

  /** A part shares its record with others, so the times in it are not its own. */
  get isPart(): boolean {
    return this.#whole !== undefined;
  }

  /** Prefill has given the whole answer, so no decode had a part in it. Of a whole that is only true when it is of all its parts. */
  answeredByPrefill(): void {
    this.prefillOnly = true;
    if (this.#whole !== undefined) return;
    this.record.path = "prefill-only";
    this.record.decode = "";
  }

  /** A keep-alive comment has gone out, so status 200 is promised: failures are frames from here on, and nothing is tried again. */
  get statusCommitted(): boolean {
    return this.#whole?.statusCommitted ?? this.#statusCommitted;
  }

  set statusCommitted(committed: boolean) {
    this.#statusCommitted = committed;
  }

  /** The client has left: by the response stream's cancel, or the request's signal, whichever tells first. */
  leave(): void {
    // Some runtimes abort a request's signal on normal completion too.
    if (!this.#done) this.stop(new ClientGone());
  }

  /** Ends the call from outside. The first reason stands. */
  stop(why: ClientGone | Failure): void {
    if (this.stopped !== undefined || this.#done) return;
    this.stopped = why;
    const listeners = this.#stopListeners;
    this.#stopListeners = [];
    for (const fn of listeners) fn?.(why);
  }

  /** Calls `fn` when the call is stopped, at once if it has been. Returns what takes it back. */
  onStop(fn: (why: ClientGone | Failure) => void): () => void {
    if (this.stopped !== undefined) {
      fn(this.stopped);
      return nothing;
    }
    const listeners = this.#stopListeners;
    const place = listeners.push(fn) - 1;
    return () => {
      listeners[place] = undefined;
    };
  }

  /** The response is over, whichever way. The first outcome stands. */
  done(outcome: Failure | ClientGone | undefined): void {
    if (this.#done) return;
    this.#done = true;
    this.outcome = outcome;
    if (this.#whole === undefined) this.#tell(outcome);
    for (const fn of this.#doneListeners) fn();
    this.background.ended?.();
  }

  onDone(fn: () => void): void {
    this.#doneListeners.push(fn);
  }

  #tell(outcome: Failure | ClientGone | undefined): void {
    const { record } = this;
    if (outcome instanceof ClientGone) {
      record.outcome = "client_cancel";
    } else if (outcome !== undefined) {
      record.code = outcome.code;
      record.stage = outcome.stage;
      record.outcome = outcomeOf(outcome);
    } else if (record.outcome === "") record.outcome = "success";
  }
}

/** A failure as the metrics and the log name it. */
export function outcomeOf(failure: Failure): RequestRecord["outcome"] {
  switch (failure.code) {
    case "prefill_timeout":
    case "decode_timeout":
      return "timeout";
    case "shutting_down":
      return "shutdown";
    case "internal":
      return "internal";
    default:
      break;
  }
  if (failure.stage === "prefill") return "prefill_failed";
  if (failure.stage === "decode") return "decode_failed";
  return failure.stage === "handoff" ? "handoff_failed" : "rejected";
}

const NO_BODY: JsonObject = { text: "", open: 0, close: 0, members: [] };

function noText(): string {
  return "";
}

function nothing(): void {}
