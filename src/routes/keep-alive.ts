import type { Answer, ClientSource } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { errorBody } from "../errors/body.ts";
import { ClientGone, Failure } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";
import { streamApis } from "../sse/api.ts";
import { asFailure } from "./error-response.ts";

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
  readonly #mask: (text: string) => string;
  #answer: Answer | Failure | ClientGone | undefined;
  #wake: (() => void) | undefined;
  #first = true;
  #over = false;

  constructor(call: Call, pending: Promise<Answer>, ms: number, clock: Clock, mask: (text: string) => string) {
    this.#call = call;
    this.#ms = ms;
    this.#clock = clock;
    this.#mask = mask;
    call.statusCommitted = true;
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
    if (answer === undefined) return COMMENT;
    if (!(answer instanceof Error) && answer.kind === "stream") return answer.source.next();
    this.#over = true;
    if (answer instanceof ClientGone) {
      this.#call.done(answer);
      return undefined;
    }
    if (!(answer instanceof Failure) && answer.kind === "text-stream") {
      this.#call.done(undefined);
      return encoder.encode(answer.text);
    }
    return this.#frame(answer instanceof Failure ? answer : notAStream());
  }

  #frame(failure: Failure): Uint8Array {
    const api = streamApis[this.#call.request.api];
    this.#call.record.errorFrame = true;
    this.#call.done(failure);
    const error = { ...errorBody(failure, this.#mask), stage: failure.stage };
    return encoder.encode(api.errorFrame(error, 0) + api.afterErrorFrame);
  }

  #known(answer: Answer | Failure | ClientGone): void {
    this.#answer = answer;
    this.#wake?.();
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

function notAStream(): Failure {
  return new Failure("decode_failed", {
    status: 502,
    stage: "decode",
    kind: "content",
    message: "The decode worker answered a streaming request with a buffered answer",
  });
}

/** Resolves with the answer if it comes within `ms`, else with undefined. Rejects as the answer does. */
export function within(pending: Promise<Answer>, ms: number, clock: Clock): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const stop = clock.after(ms, () => resolve(undefined));
    pending.then(
      (answer) => {
        stop();
        resolve(answer);
      },
      (error: unknown) => {
        stop();
        reject(error);
      },
    );
  });
}
