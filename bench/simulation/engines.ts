import type { Agenda } from "./events.ts";
import type { Turn } from "./workload.ts";

/** Tokens a prefill worker computes in a millisecond, and what its cache holds. */
const TOKENS_PER_MS = 6;
const FIXED_MS = 12;
const CACHE_TOKENS = 700_000;
/** One step of a decode worker's batch, by the requests in it. */
const STEP_MS = 18;
const STEP_MS_PER_REQUEST = 0.35;
const TRANSFER_MS = 15;

/** A prefill engine: one prompt after the other, with a prefix cache of its own (least recently used leaves first). */
export class PrefillEngine {
  readonly region: number;
  up = true;
  /** When it is through with all it has. */
  busyUntil = 0;
  computed = 0;
  readonly #cache = new Map<number, number>();
  #held = 0;

  constructor(region: number) {
    this.region = region;
  }

  /** Tokens of the prompt that are in the cache now. */
  cached(turn: Turn): number {
    const own = this.#cache.get(turn.session) ?? 0;
    if (own > 0) return Math.min(own, turn.promptTokens);
    return this.#cache.has(-1 - turn.system) ? Math.min(turn.systemTokens, turn.promptTokens) : 0;
  }

  /** Waiting and computing, if it arrived now. */
  expectedMs(turn: Turn, now: number): number {
    return Math.max(0, this.busyUntil - now) + FIXED_MS + (turn.promptTokens - this.cached(turn)) / TOKENS_PER_MS;
  }

  /** Takes the prompt in; returns when it is done, and how much of it was cached. */
  take(turn: Turn, now: number): { doneAt: number; cached: number } {
    const cached = this.cached(turn);
    this.computed += turn.promptTokens - cached;
    this.busyUntil = now + this.expectedMs(turn, now);
    this.#touch(turn.session, turn.promptTokens);
    this.#touch(-1 - turn.system, turn.systemTokens);
    return { doneAt: this.busyUntil, cached };
  }

  restart(): void {
    this.#cache.clear();
    this.#held = 0;
    this.busyUntil = 0;
  }

  #touch(key: number, tokens: number): void {
    this.#held += tokens - (this.#cache.get(key) ?? 0);
    this.#cache.delete(key);
    this.#cache.set(key, tokens);
    while (this.#held > CACHE_TOKENS) {
      const [oldest, size] = this.#cache.entries().next().value!;
      this.#cache.delete(oldest);
      this.#held -= size;
    }
  }
}

/** A decode engine: all requests in one batch, whose step gets longer with each. */
export class DecodeEngine {
  readonly region: number;
  up = true;
  running = 0;

  constructor(region: number) {
    this.region = region;
  }

  stepMs(): number {
    return STEP_MS + this.running * STEP_MS_PER_REQUEST;
  }

  firstTokenMs(): number {
    return TRANSFER_MS + this.stepMs();
  }

  /** Takes a request in until its last token. */
  take(turn: Turn, agenda: Agenda, ended: () => void): void {
    this.running += 1;
    agenda.at(agenda.now + TRANSFER_MS + turn.answerTokens * this.stepMs(), () => {
      this.running -= 1;
      ended();
    });
  }
}
