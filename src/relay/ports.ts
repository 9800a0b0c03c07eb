import type { ClientGone, Failure, FaultKind } from "../errors/failure.ts";
import type { Leg } from "../legs/leg.ts";
import type { PrefillTail, PrefillTask } from "../prefill/task.ts";
import type { Clock } from "../runtime/clock.ts";
import type { StreamApi } from "../sse/api.ts";
import type { EventEditor } from "./held-event.ts";

/** What the relay tells, each at most once per cause (counters and logs are the observer's business), and what it asks. */
export interface RelayObserver {
  /** The heart's error → what the client may see. */
  explain(error: unknown): Failure;
  /** The stream is over for the client. `undefined`: well. */
  ended(failure: Failure | ClientGone | undefined): void;
  /** Prefill's answer has begun with the status of an error: it will fail, as soon as it is known with which words. */
  prefillFails(): boolean;
  /** The first whole event of decode came (a deferred cancel may close the legs from here on). */
  firstEvent(): void;
  /** Events come, and decode is waited for again: at once, and then once a second at most. */
  speaks(now: number): void;
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
  mask(text: string): string;
  observer: RelayObserver;
}
