/** Until something was measured: what a mid-sized prefill worker does. */
const DEFAULT_TOKENS_PER_MS = 8;
const FALL = 0.3;
const RISE = 0.02;
/**
 * A worker's speed shows in its better moments; in the others it had to wait, and what waits is counted apart. Steps of equal size follow the
 * rate that two prompts in three do not reach, and no single one, that somebody had cached unknown to us, can pull it far away.
 */
const FASTER = 1.02;
const SLOWER = 0.99;
/**
 * The first prompt makes so many of these steps at once, the nth an nth part of them: a pool is known after a few dozen prompts, and a first one
 * that somebody had cached is put right by the next ten.
 */
const FIRST_STEPS = 16;
/** Shorter prompts measure the engine's fixed cost, not its speed. */
const TELLING_TOKENS = 256;

/** What takes longer is no distance: the engine was busy, or has just been started. */
const FARTHEST_MS = 1_000;
/** The first answer of all may be a cold engine's. */
const FARTHEST_AT_FIRST_MS = 250;
/**
 * Without a newer answer what was measured is believed half as much after so long, and the nearest that was ever seen instead: a pool that a
 * bad hour has made look far away gets no requests, and so would never be measured again.
 */
const HALF_LIFE_MS = 120_000;
/** Fewer answers than these have not shown how near a pool is: they fade to nothing. */
const TELLING_ANSWERS = 8;

/** A time that is measured again and again. */
class Measured {
  #ms: number | undefined;
  #least = Number.POSITIVE_INFINITY;
  #answers = 0;
  #at = 0;

  at(now: number): number | undefined {
    if (this.#ms === undefined) return undefined;
    const base = this.#answers < TELLING_ANSWERS ? 0 : this.#least;
    return base + (this.#ms - base) * 0.5 ** ((now - this.#at) / HALF_LIFE_MS);
  }

  sample(ms: number, now: number): void {
    const known = this.at(now);
    // After a long silence it is measured as if for the first time: nobody knows how much of the fading was right. How near it has been
    // stays true: an engine that slept is slow to answer, and was no farther away for it.
    if (known === undefined || now - this.#at > HALF_LIFE_MS) {
      this.#ms = Math.min(ms, FARTHEST_AT_FIRST_MS);
      this.#least = Math.min(this.#least, this.#ms);
    } else {
      const sample = Math.min(ms, FARTHEST_MS);
      this.#ms = known + (sample - known) * (sample < known ? FALL : RISE);
      this.#least = Math.min(this.#least, ms);
    }
    this.#answers++;
    this.#at = now;
  }
}

/** What real traffic has taught about one pool: how far away it is, and how fast it computes prompts. Plain numbers; times are the router's clock's. */
export class PoolSpeed {
  readonly #headers = new Measured();
  readonly #excess = new Measured();
  #tokensPerMs = DEFAULT_TOKENS_PER_MS;
  #prompts = 0;

  /**
   * Smoothed time to headers, milliseconds; undefined until known. It falls fast and rises slowly, so it stays near the floor of what was
   * seen: waiting in a queue is counted apart, and must not look like distance.
   */
  headersMs(now: number): number | undefined {
    return this.#headers.at(now);
  }

  /** The same, less what the distance between client and pool lets expect: clients of one router may come from many places. */
  excessMs(now: number): number | undefined {
    return this.#excess.at(now);
  }

  get tokensPerMs(): number {
    return this.#tokensPerMs;
  }

  /** `estimateMs`: the round trip by distance, undefined where a place is not known. */
  answered(headersMs: number, estimateMs: number | undefined, now: number): void {
    this.#headers.sample(headersMs, now);
    if (estimateMs !== undefined) this.#excess.sample(headersMs - estimateMs, now);
  }

  /** So many prompt tokens, not counting cached ones, were computed in that time. */
  prefilled(tokens: number, ms: number): void {
    if (tokens < TELLING_TOKENS || ms <= 0) return;
    const step = tokens / ms > this.#tokensPerMs ? FASTER : SLOWER;
    this.#tokensPerMs *= step ** Math.max(1, FIRST_STEPS / ++this.#prompts);
  }
}
