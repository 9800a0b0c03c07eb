import type { BytesTaker } from "../relay/outbox.ts";

/** A stream for the client, pulled: `next` resolves with bytes, or undefined at the end, and never rejects. */
export interface ClientSource {
  next(): Promise<Uint8Array | undefined>;
  /** The same where each promise counts: gives them to `taker` once, perhaps before it returns. */
  pull?(taker: BytesTaker): void;
}

export type PassedHeaders = readonly (readonly [string, string])[];

/** What an attempt gives when it has succeeded so far. `text-stream`: a whole stream that is known already. */
export type Answer =
  | { kind: "stream"; source: ClientSource; headers: PassedHeaders }
  | { kind: "text-stream"; text: string; headers: PassedHeaders }
  | { kind: "buffered"; body: string; headers: PassedHeaders };
