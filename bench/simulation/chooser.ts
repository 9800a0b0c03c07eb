import type { Turn } from "./workload.ts";

/** Where a turn goes, and what is to be told about it afterwards. */
export interface Placed {
  region: number;
  prefill: number;
  decode: number;
  /** Prefill's answer has come back, so long after it was sent. */
  prefilled(ms: number): void;
  /** Decode's head has come back, so long after it was sent. */
  answered(headersMs: number): void;
  /** One of the workers was not there. */
  failed(who: "prefill" | "decode"): void;
  /** Prefill is let go of, and decode. Each once. */
  releasePrefill(): void;
  releaseDecode(): void;
}

/** A way to choose among all regions and workers; asked at a point of presence. `failed`: regions in which this turn has failed. */
export interface Chooser {
  readonly name: string;
  choose(turn: Turn, failed: ReadonlySet<number>): Placed | undefined;
  /** Bytes and messages that went to a shared store so far, from all routers. */
  readonly store: { messages: number; bytes: number };
}
