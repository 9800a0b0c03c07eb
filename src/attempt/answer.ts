import { Failure } from "../errors/failure.ts";
import type { BytesTaker } from "../relay/outbox.ts";

/** A stream for the client, pulled: `next` resolves with bytes, or undefined at the end, and never rejects. */
export interface ClientSource {
  next(): Promise<Uint8Array | undefined>;
  /** The same where each promise counts: gives them to `taker` once, perhaps before it returns. */
  pull?(taker: BytesTaker): void;
}

/** 502: an engine that was asked for a stream gave something else; a client library makes an empty stream of it, without an error. */
export function notAStream(): Failure {
  return new Failure("decode_failed", {
    status: 502,
    stage: "decode",
    kind: "content",
    message: "The decode worker answered a streaming request with a buffered answer",
  });
}

export type PassedHeaders = readonly (readonly [string, string])[];

/** What an attempt gives when it has succeeded so far. `text-stream`: a whole stream that is known already. */
export type Answer =
  | { kind: "stream"; source: ClientSource; headers: PassedHeaders }
  | { kind: "text-stream"; text: string; headers: PassedHeaders }
  | { kind: "buffered"; body: string; headers: PassedHeaders };
