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
/** Shorter prompts measure the engine's fixed cost, not its speed. */
const TELLING_TOKENS = 256;

/**
 * What real traffic has taught about one pool: how far away it is, and how fast it computes prompts. Plain numbers; a fact that has not
 * been renewed for long is still the best there is.
 */
export class PoolSpeed {
  #headersMs: number | undefined;
  #excessMs: number | undefined;
  #tokensPerMs: number | undefined;

  /**
   * Smoothed time to headers, milliseconds; undefined until known. It falls fast and rises slowly, so it stays near the floor of what was
   * seen: waiting in a queue is counted apart, and must not look like distance.
   */
  get headersMs(): number | undefined {
    return this.#headersMs;
  }

  /** The same, less what the distance between client and pool lets expect: clients of one router may come from many places. */
  get excessMs(): number | undefined {
    return this.#excessMs;
  }

  get tokensPerMs(): number {
    return this.#tokensPerMs ?? DEFAULT_TOKENS_PER_MS;
  }

  /** `estimateMs`: the round trip by distance, undefined where a place is not known. */
  answered(headersMs: number, estimateMs: number | undefined): void {
    this.#headersMs = floor(this.#headersMs, headersMs);
    if (estimateMs !== undefined) this.#excessMs = floor(this.#excessMs, headersMs - estimateMs);
  }

  /** So many prompt tokens, not counting cached ones, were computed in that time. */
  prefilled(tokens: number, ms: number): void {
    if (tokens < TELLING_TOKENS || ms <= 0) return;
    const rate = tokens / ms;
    const known = this.#tokensPerMs;
    this.#tokensPerMs = known === undefined ? rate : known * (rate > known ? FASTER : SLOWER);
  }
}

function floor(known: number | undefined, sample: number): number {
  return known === undefined ? sample : known + (sample - known) * (sample < known ? FALL : RISE);
}
