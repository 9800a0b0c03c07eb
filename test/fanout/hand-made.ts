import type { ClientSource } from "../../src/attempt/answer.ts";
import { Call } from "../../src/attempt/call.ts";
import { type ClientGone, Failure } from "../../src/errors/failure.ts";
import { scanObject } from "../../src/json/scan.ts";
import { SharedHeaders } from "../../src/legs/shared-headers.ts";
import { createRecord } from "../../src/telemetry/record.ts";

export const DONE = "data: [DONE]\n\n";
export const FRAME = 'data: {"error":{"message":"lost","type":"server_error","code":"decode_failed","param":null}}\n\n';

/** A part whose stream is written by hand: blocks that are there, then what the test adds. */
export class HandMade implements ClientSource {
  readonly call: Call;
  readonly blocks: (string | undefined)[];
  pulls = 0;
  stopped: ClientGone | Failure | undefined;
  #waiting: ((bytes: Uint8Array | undefined) => void) | undefined;

  constructor(...blocks: (string | undefined)[]) {
    this.call = newCall();
    this.blocks = blocks;
    this.call.onStop((why) => {
      this.stopped = why;
      this.blocks.length = 0;
      if (why instanceof Failure) this.fail(why);
      else this.end(why);
    });
  }

  next(): Promise<Uint8Array | undefined> {
    this.pulls++;
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#serve();
    });
  }

  add(block: string | undefined): void {
    this.blocks.push(block);
    this.#serve();
  }

  /** As the relay does: the end is told before the frame is taken. */
  fail(failure: Failure): void {
    this.call.done(failure);
    this.add(FRAME + DONE);
    this.add(undefined);
  }

  end(outcome?: ClientGone): void {
    this.call.done(outcome);
    this.add(undefined);
  }

  #serve(): void {
    if (this.#waiting === undefined || this.blocks.length === 0) return;
    const block = this.blocks.shift();
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (block === undefined) this.call.done(undefined);
    waiting(block === undefined ? undefined : new TextEncoder().encode(block));
  }
}

export function newCall(): Call {
  return new Call({
    request: {
      api: "chat",
      path: "/v1/chat/completions",
      doc: scanObject("{}"),
      stream: true,
      includeUsage: false,
      model: "m",
      engineModel: undefined,
      singleToken: false,
      wantsInputLogprobs: false,
    },
    outgoing: new SharedHeaders([]),
    record: createRecord(0, 0),
    choice: { tokens: 1, prompt: () => "", session: () => "" },
    background: { run() {} },
  });
}

export async function ticks(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

export function lost(): Failure {
  return new Failure("decode_failed", { status: 502, stage: "decode", kind: "cut", message: "lost" });
}
