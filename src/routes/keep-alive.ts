import { type Answer, type ClientSource, notAStream } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { asFailure, ClientGone, Failure } from "../errors/failure.ts";
import { failureFrame } from "../relay/failure-frame.ts";
import type { Clock } from "../runtime/clock.ts";
import { streamApis } from "../sse/api.ts";
import { withoutMark } from "../sse/byte-order-mark.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

const COMMENT = new TextEncoder().encode(": keep-alive\n\n");
const encoder = new TextEncoder();

/**
 * A stream that begins before its answer is known: a comment every `ms` until it is. The price (contract section 5): the first comment
 * commits status 200, so a failure from then on is a frame, and nothing is tried again.
 */
export class KeepAliveSource implements ClientSource {
  readonly #call: Call;
  readonly #ms: number;
  readonly #clock: Clock;
  readonly #mask: Telemetry["mask"];
  /** Bytes: what is whole already, a frame or an answer of prefill's alone; none when the client has left. */
  #answer: ClientSource | Uint8Array | undefined;
  #wake: (() => void) | undefined;
  #first = true;
  /** Some of the answer has gone out. */
  #begun = false;
  #over = false;

  constructor(call: Call, pending: Promise<Answer>, ms: number, clock: Clock, mask: Telemetry["mask"]) {
    this.#call = call;
    this.#ms = ms;
    this.#clock = clock;
    this.#mask = mask;
    call.statusCommitted = true;
    call.record.bytesOut += COMMENT.length;
    pending.then(
      (answer) => this.#known(answer),
      (error: unknown) => this.#known(error instanceof ClientGone ? error : asFailure(error)),
    );
  }

  async next(): Promise<Uint8Array | undefined> {
    if (this.#first) {
      this.#first = false;
      return COMMENT;
    }
    if (this.#over) return undefined;
    if (this.#answer === undefined) await this.#wait();
    const answer = this.#answer;
    if (answer === undefined) {
      this.#call.record.bytesOut += COMMENT.length;
      return COMMENT;
    }
    if (!(answer instanceof Uint8Array)) {
      const bytes = await answer.next();
      const first = !this.#begun;
      this.#begun = true;
      return first && bytes !== undefined ? withoutMark(bytes) : bytes;
    }
    this.#over = true;
    return answer.length === 0 ? undefined : answer;
  }

  #known(answer: Answer | Failure | ClientGone): void {
    const known = answer instanceof Error || isStream(answer) ? answer : notAStream();
    if (!(known instanceof Error) && known.kind === "stream") this.#answer = known.source;
    else this.#whole(known);
    this.#wake?.();
  }

  /** What is no stream of its own is over when it is known: nobody may come to pull it any more. */
  #whole(known: Failure | ClientGone | { text: string }): void {
    const { record, request } = this.#call;
    let text = "";
    if (known instanceof Failure) {
      record.errorFrame = true;
      text = failureFrame(known, streamApis[request.api], this.#mask, 0);
    } else if (!(known instanceof ClientGone)) {
      record.committedAt = this.#clock.now();
      text = known.text;
    }
    const bytes = encoder.encode(text);
    record.bytesOut += bytes.length;
    this.#answer = bytes;
    this.#call.done(known instanceof Error ? known : undefined);
  }

  /** Until the answer is known or the next comment is due. */
  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.#clock.after(this.#ms, resolve);
      this.#wake = () => {
        stop();
        resolve();
      };
    });
  }
}

type Streamed = Exclude<Answer, { kind: "buffered" }>;

function isStream(answer: Answer): answer is Streamed {
  return answer.kind !== "buffered";
}
