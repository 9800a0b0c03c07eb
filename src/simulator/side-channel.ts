import type { Clock } from "../runtime/clock.ts";
import { type Deferred, deferred } from "../runtime/deferred.ts";
import type { SidePeer } from "./remote-side-channel.ts";
import { orLeft } from "./time.ts";

/** What both legs of one room or transfer wait for. */
interface Room {
  prefill: Side | undefined;
  decode: Side | undefined;
  decodeHere: Deferred<Side>;
  transferred: Deferred<MeetOutcome>;
}

interface Side {
  /** What the leg's prompt renders to, hashed: the KV of another prompt is garbage to decode. */
  prompt: string;
  gone: boolean;
}

/**
 * How a rendezvous ended for decode: `same` and `other` say whether both legs had the same prompt. There is no outcome
 * for a failed prefill, since the real decode engine is not told either: it waits until its own limit.
 */
export type MeetOutcome = "same" | "other" | "taken";

export interface Grant {
  id: string;
  /** The hand-off as it went out, canonical JSON: decode must bring back exactly this. */
  object: string;
  prompt: string;
  /** Clock time at which prefill's blocks are freed whatever happens. */
  expiresAt: number;
  leaseMs: number;
  reads: number;
}

/** How reading a hand-off's blocks ended. `late` and `reused` give decode somebody else's blocks, not an error. */
export type ReadOutcome = "ok" | "unknown" | "changed" | "late" | "reused" | "other-prompt";

/** Grants nobody asks for any more are forgotten beyond this many: a simulator may run for days. */
const keptGrants = 10_000;

/** The prefill side of a KV transfer: rooms where two legs meet, and a ledger of hand-offs. One per side-channel port. */
export class SideChannel implements SidePeer {
  readonly stats = { pairs: 0, reusedRooms: 0, reads: 0, reused: 0, expired: 0, unknown: 0 };
  readonly #clock: Clock;
  readonly #rooms = new Map<string, Room>();
  readonly #grants = new Map<string, Grant>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rooms in which somebody waits. */
  get openRooms(): number {
    return this.#rooms.size;
  }

  /** Hand-offs that nobody has read and whose lease still runs: blocks that prefill cannot use. */
  get heldGrants(): number {
    const now = this.#clock.now();
    let held = 0;
    for (const grant of this.#grants.values()) if (grant.reads === 0 && now < grant.expiresAt) held += 1;
    return held;
  }

  /** Hand-offs whose lease ran out before anybody read them: leaked blocks. */
  get leakedGrants(): number {
    const now = this.#clock.now();
    let leaked = 0;
    for (const grant of this.#grants.values()) if (grant.reads === 0 && now >= grant.expiresAt) leaked += 1;
    return leaked;
  }

  /**
   * Prefill takes its place in a room. Resolves when decode has come, to a function that moves the blocks and says
   * whether decode was still there. Rejects with ClientLeft when the signal aborts. `undefined`: the room is in use.
   */
  async offer(room: string, prompt: string, signal: AbortSignal): Promise<(() => boolean) | undefined> {
    const pair = this.#room(room);
    if (pair.prefill !== undefined) {
      this.stats.reusedRooms += 1;
      return undefined;
    }
    const here: Side = { prompt, gone: false };
    pair.prefill = here;
    const leave = (): void => this.#leave(room, pair, here);
    signal.addEventListener("abort", leave, { once: true });
    const decode = await orLeft(pair.decodeHere.promise, signal);
    return (): boolean => {
      signal.removeEventListener("abort", leave);
      if (this.#rooms.get(room) === pair) this.#rooms.delete(room);
      if (decode.gone || here.gone) return false;
      this.stats.pairs += 1;
      pair.transferred.resolve(decode.prompt === prompt ? "same" : "other");
      return true;
    };
  }

  /** Decode takes its place and waits for the blocks, for ever if it must; the caller bounds it by the signal. */
  async meet(room: string, prompt: string, signal: AbortSignal): Promise<MeetOutcome> {
    const pair = this.#room(room);
    if (pair.decode !== undefined) {
      this.stats.reusedRooms += 1;
      return "taken";
    }
    const here: Side = { prompt, gone: false };
    pair.decode = here;
    pair.decodeHere.resolve(here);
    const leave = (): void => this.#leave(room, pair, here);
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await orLeft(pair.transferred.promise, signal);
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** Prefill lends its blocks for `leaseMs`. `object` is the canonical text of the hand-off. */
  grant(id: string, object: string, prompt: string, leaseMs: number): void {
    if (this.#grants.size >= keptGrants) this.#grants.delete(this.#grants.keys().next().value as string);
    this.#grants.set(id, { id, object, prompt, leaseMs, expiresAt: this.#clock.now() + leaseMs, reads: 0 });
  }

  /** Decode reads the blocks of a hand-off. Good for one read within the lease. */
  async read(id: string, object: string, prompt: string): Promise<ReadOutcome> {
    const grant = this.#grants.get(id);
    this.stats.reads += 1;
    if (grant === undefined) {
      this.stats.unknown += 1;
      return "unknown";
    }
    if (grant.object !== object) return "changed";
    grant.reads += 1;
    if (grant.reads > 1) {
      this.stats.reused += 1;
      return "reused";
    }
    if (this.#clock.now() >= grant.expiresAt) {
      this.stats.expired += 1;
      return "late";
    }
    return grant.prompt === prompt ? "ok" : "other-prompt";
  }

  /** All blocks are gone, as after a restart: reads of old hand-offs fail from here on. */
  forget(): void {
    this.#grants.clear();
  }

  #room(name: string): Room {
    let pair = this.#rooms.get(name);
    if (pair === undefined) {
      pair = {
        prefill: undefined,
        decode: undefined,
        decodeHere: deferred<Side>(),
        transferred: deferred<MeetOutcome>(),
      };
      this.#rooms.set(name, pair);
    }
    return pair;
  }

  /** A leg is gone. The other one is not told (the real engines are not either); the room ends with its last leg. */
  #leave(name: string, pair: Room, side: Side): void {
    side.gone = true;
    const empty = (pair.prefill?.gone ?? true) && (pair.decode?.gone ?? true);
    if (empty && this.#rooms.get(name) === pair) this.#rooms.delete(name);
  }
}
