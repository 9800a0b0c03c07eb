import type { ClientSource } from "../attempt/answer.ts";
import type { Call } from "../attempt/call.ts";
import { asFailure, ClientGone, Failure } from "../errors/failure.ts";
import { findMember, hasMember, rawValue } from "../json/member.ts";
import { JsonError, type JsonObject, scanArrayAt, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";
import { withData } from "../relay/held-event.ts";
import { type Api, streamApis } from "../sse/api.ts";
import { withoutMark } from "../sse/byte-order-mark.ts";
import { isDone, NO_MEANING } from "../sse/event-data.ts";
import { type ParsedEvent, parseEvent } from "../sse/parse-event.ts";
import { eventSpans } from "../sse/split.ts";
import { StreamState } from "../sse/stream-state.ts";
import { mergeUsage } from "./merge-usage.ts";
import { type Identity, identityOf, relabel, withIndex } from "./relabel.ts";

/** A part whose status may be committed, and its stream: whole events, ended by the API's end mark. */
export interface MergedPart {
  call: Call;
  source: ClientSource;
}

/** How a merged stream has ended. */
export interface MergeEnd {
  failure: Failure | ClientGone | undefined;
  bytes: number;
  blocks: number;
  /** Of each part, the data of its last event that carried usage. */
  usages: readonly string[];
}

export interface MergeOptions {
  api: Api;
  parts: readonly MergedPart[];
  /** Samples per prompt, for the usage. */
  samples: number;
  /** Once, at the end. */
  ended(end: MergeEnd): void;
}

/** `idle`: nothing is asked for. `pulling`: its next block is awaited. `ready`: it has a block that the client has not taken. */
type LaneState = "idle" | "pulling" | "ready" | "over";

interface Lane extends MergedPart {
  index: number;
  state: LaneState;
  /** A block of it has come. */
  begun: boolean;
  usage: string;
}

const encoder = new TextEncoder();

/**
 * The streams of all parts as one stream (contract, "Several answers"): events as they come, under one id and the right `index`, one usage,
 * one end mark. Pulled by the client, all parts at once; at most one block of each part waits, so that a client that does not read
 * stops them all. The failure of one part is the failure of the whole: its frame goes out, once, and the other parts are closed in the
 * same tick.
 */
export class MergedSource implements ClientSource {
  readonly #o: MergeOptions;
  readonly #lanes: Lane[];
  #identity: Identity | undefined;
  #ready: Uint8Array[] = [];
  #usageEvent: { bytes: Uint8Array; parsed: ParsedEvent; doc: JsonObject } | undefined;
  #waiting: ((bytes: Uint8Array | undefined) => void) | undefined;
  #failing: Lane | undefined;
  #over = false;
  #bytes = 0;
  #blocks = 0;

  constructor(options: MergeOptions) {
    this.#o = options;
    this.#lanes = options.parts.map((part, index) => ({ ...part, index, state: "idle", begun: false, usage: "" }));
    for (const lane of this.#lanes) lane.call.onDone(() => this.#partDone(lane));
  }

  /** The next bytes for the client, undefined at the end. Never rejects. Call again only after the last one has resolved. */
  next(): Promise<Uint8Array | undefined> {
    if (this.#ready.length > 0) return Promise.resolve(this.#take());
    if (this.#over) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#waiting = resolve;
      for (const lane of this.#lanes) if (lane.state === "idle") this.#pull(lane);
    });
  }

  /** Ends the stream from outside: the client has left, and nothing more is written; or a Failure, which becomes its last frame. */
  stop(why: ClientGone | Failure): void {
    if (this.#over) return;
    if (why instanceof ClientGone) {
      for (const lane of this.#lanes) lane.call.stop(why);
      this.#ready.length = 0;
      this.#finish(why);
      return;
    }
    // The first part that can still fail says it, which closes the others; one whose answer is already out ends well.
    for (const lane of this.#lanes) lane.call.stop(why);
  }

  #partDone(lane: Lane): void {
    if (!(lane.call.outcome instanceof Failure) || this.#over || this.#failing !== undefined) return;
    this.#failing = lane;
    for (const other of this.#lanes) if (other !== lane) other.call.stop(new ClientGone());
    // Its frame ends the whole, also for a client that does not read.
    if (lane.state !== "pulling") this.#pull(lane);
  }

  #pull(lane: Lane): void {
    lane.state = "pulling";
    lane.source
      .next()
      .then((bytes) => this.#onBlock(lane, bytes))
      .catch((error) => this.#broken(lane, error));
  }

  /** Something of ours has failed: every part ends as if it were stopped, and the first of them says why. */
  #broken(lane: Lane, error: unknown): void {
    const failure = asFailure(error);
    if (this.#failing !== undefined) {
      for (const { call } of this.#lanes) call.stop(new ClientGone());
      this.#finish(failure);
      return;
    }
    lane.state = "idle";
    this.stop(failure);
    if (this.#waiting !== undefined) for (const one of this.#lanes) if (one.state === "idle") this.#pull(one);
  }

  #onBlock(lane: Lane, bytes: Uint8Array | undefined): void {
    if (this.#over) return;
    // What the other parts may still have said is not worth saying once one has failed.
    if (this.#failing !== undefined && lane !== this.#failing) lane.state = "over";
    else if (bytes === undefined) this.#laneOver(lane);
    else this.#laneBlock(lane, bytes);
  }

  #laneBlock(lane: Lane, block: Uint8Array): void {
    const bytes = lane.begun || this.#lanes.every(({ begun }) => !begun) ? block : withoutMark(block);
    lane.begun = true;
    const out: Uint8Array[] = [];
    for (const { start, end } of eventSpans(bytes)) {
      if (this.#event(lane, bytes.subarray(start, end), out) === "last") {
        this.#ready.push(...out);
        this.#finish(lane.call.outcome);
        return;
      }
    }
    this.#ready.push(...out);
    lane.state = out.length === 0 ? "idle" : "ready";
    if (out.length > 0) this.#deliver();
    if (lane === this.#failing || (lane.state === "idle" && this.#waiting !== undefined)) this.#pull(lane);
  }

  #laneOver(lane: Lane): void {
    lane.state = "over";
    if (lane === this.#failing) this.#finish(lane.call.outcome);
    else if (this.#lanes.every(isOver)) {
      const usage = this.#mergedUsage();
      if (usage !== undefined) this.#ready.push(usage);
      this.#ready.push(encoder.encode(streamApis[this.#o.api].endMark));
      this.#finish(undefined);
    }
  }

  /** Puts into `out` what one event of one part becomes. `last`: it is the error frame, and nothing may follow. */
  #event(lane: Lane, bytes: Uint8Array, out: Uint8Array[]): "last" | undefined {
    const api = streamApis[this.#o.api];
    const parsed = parseEvent(bytes);
    const { data } = parsed;
    if (isDone(parsed)) return undefined;
    const doc = data === undefined ? undefined : scan(data);
    if (data === undefined || doc === undefined) {
      out.push(bytes);
      return undefined;
    }
    if (lane === this.#failing && api.read(parsed, new StreamState()).failure !== undefined) {
      out.push(bytes, encoder.encode(api.afterErrorFrame));
      return "last";
    }
    if (api.name === "generate") {
      if (hasMember(doc, "meta_info")) lane.usage = data;
      out.push(rewritten(bytes, parsed, withIndex(data, lane.index)));
      return undefined;
    }
    if (this.#identity?.id === undefined) this.#identity = identityOf(doc);
    if (isUsageAlone(doc)) {
      lane.usage = data;
      this.#usageEvent ??= { bytes, parsed, doc };
    } else out.push(rewritten(bytes, parsed, relabel(doc, lane.index, this.#identity)));
    return undefined;
  }

  #mergedUsage(): Uint8Array | undefined {
    const event = this.#usageEvent;
    if (event === undefined || this.#identity === undefined) return undefined;
    const usages = this.#lanes.map(({ usage }) => (usage === "" ? undefined : rawValue(scanObject(usage), "usage")));
    const own = relabel(event.doc, 0, this.#identity);
    const data = splice(scanObject(own), { set: { usage: mergeUsage(usages, this.#o.samples) } });
    return rewritten(event.bytes, event.parsed, data);
  }

  #deliver(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(this.#ready.length === 0 ? undefined : this.#take());
  }

  #take(): Uint8Array {
    const bytes = joined(this.#ready);
    this.#ready.length = 0;
    for (const lane of this.#lanes) if (lane.state === "ready") lane.state = "idle";
    this.#bytes += bytes.length;
    this.#blocks++;
    return bytes;
  }

  /** Nothing comes after what is ready now. */
  #finish(failure: Failure | ClientGone | undefined): void {
    if (this.#over) return;
    this.#over = true;
    let bytes = this.#bytes;
    for (const block of this.#ready) bytes += block.length;
    this.#o.ended({
      failure,
      bytes,
      blocks: this.#blocks + (this.#ready.length > 0 ? 1 : 0),
      usages: this.#lanes.map(({ usage }) => usage),
    });
    this.#deliver();
  }
}

function rewritten(bytes: Uint8Array, parsed: ParsedEvent, data: string): Uint8Array {
  return data === parsed.data ? bytes : withData({ bytes, parsed, meaning: NO_MEANING }, data);
}

/** The event behind the last choice, which has usage and nothing else. */
function isUsageAlone(doc: JsonObject): boolean {
  const choices = findMember(doc, "choices");
  if (choices === undefined || rawValue(doc, "usage")?.startsWith("{") !== true) return false;
  return doc.text[choices.valueStart] === "[" && scanArrayAt(doc.text, choices.valueStart).length === 0;
}

function scan(data: string): JsonObject | undefined {
  try {
    return scanObject(data, { maxMembers: Number.POSITIVE_INFINITY });
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

function isOver({ state }: Lane): boolean {
  return state === "over";
}

function joined(blocks: readonly Uint8Array[]): Uint8Array {
  if (blocks.length === 1) return blocks[0]!;
  let length = 0;
  for (const block of blocks) length += block.length;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const block of blocks) {
    whole.set(block, at);
    at += block.length;
  }
  return whole;
}
