import type { LegRequest } from "../engines/dialect.ts";
import { eventEdits } from "../engines/response-edits.ts";
import { ClientGone, Failure } from "../errors/failure.ts";
import type { Lease } from "../workers/lease.ts";
import type { Answer } from "./answer.ts";
import { blame } from "./blame.ts";
import type { Call } from "./call.ts";
import { type DecodeOwner, DecodeSide } from "./decode-side.ts";
import { explain } from "./explain.ts";
import { Interruptible } from "./interruptible.ts";
import { openLeg } from "./open-leg.ts";
import type { Services } from "./services.ts";

/** How long a finished leg may take to end its body before it is closed. */
const LINGER_MS = 2_000;

/** One try at answering a request on one worker: an aggregated one, or decode alone. */
export class WholeAttempt implements DecodeOwner {
  readonly #services: Services;
  readonly #call: Call;
  readonly #lease: Lease;
  readonly #side: DecodeSide;
  readonly #wait = new Interruptible();
  /** There is no prefill. */
  readonly timedOut = undefined;
  #offStop: () => void = nothing;

  constructor(services: Services, call: Call, lease: Lease, leg: LegRequest, choices: number, id: string) {
    this.#services = services;
    this.#call = call;
    this.#lease = lease;
    this.#side = new DecodeSide({
      services,
      call,
      worker: lease.worker,
      leg: openLeg(services, call, "decode", lease.worker, leg, id),
      wait: this.#wait,
      task: undefined,
      tail: undefined,
      choices,
      editor:
        call.request.engineModel === undefined || !call.request.stream
          ? undefined
          : eventEdits({ ...call.request, wantsInputLogprobs: false }),
      owner: this,
    });
    this.#side.leg.onClosed(() => lease.release());
  }

  async run(): Promise<Answer> {
    this.#offStop = this.#call.onStop((why) => this.#stopped(why));
    try {
      return await (this.#call.request.stream ? this.#side.stream() : this.#side.buffered());
    } catch (error) {
      const failure = this.#call.stopped ?? explain(error);
      this.#offStop();
      // A router that shuts down stops requests as well: that is not the worker's doing.
      if (failure instanceof Failure && failure.stage === "decode")
        blame(this.#lease.worker, failure, this.#services.clock.now(), this.#call.bufferedSince);
      this.#side.relay?.abandon();
      this.#side.leg.close(failure instanceof ClientGone ? "client" : "other-leg");
      throw failure;
    }
  }

  prefillFails(): boolean {
    return false;
  }

  speaks(now: number): void {
    this.#lease.speaks(now);
  }

  decodeEnded(failure: Failure | ClientGone | undefined): void {
    this.#offStop();
    const now = this.#services.clock.now();
    if (failure === undefined) {
      this.#lease.worker.succeeded(now);
      this.#side.leg.finish(LINGER_MS);
      return;
    }
    if (failure instanceof Failure && failure.stage === "decode")
      blame(this.#lease.worker, failure, now, this.#call.bufferedSince);
    this.#side.leg.close(failure instanceof ClientGone ? "client" : "other-leg");
  }

  #stopped(why: ClientGone | Failure): void {
    if (this.#side.relay?.committed === true) this.#side.relay.stop(why);
    else this.#wait.interrupt(why);
  }
}

function nothing(): void {}
