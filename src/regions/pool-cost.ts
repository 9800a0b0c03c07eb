/** What the choice of a region looks at, for one pool and one request. Milliseconds and tokens. */
export interface PoolFacts {
  /** Measured time to headers, or the estimate for the distance. */
  distanceMs: number;
  /** Prompt tokens still to be computed, per prefill (or aggregated) worker that can take a request, by weight. */
  queuedTokens: number;
  /** Requests in hand per decode (or aggregated) worker, by weight. */
  decodePressure: number;
  tokensPerMs: number;
  /** Tokens of this prompt, and how many of them the pool is expected to have cached. */
  promptTokens: number;
  cachedTokens: number;
}

/** What one more request on a decode worker costs those that are there: a step of the batch gets a little longer. */
const DECODE_MS_PER_REQUEST = 2;

export interface PoolCost {
  distanceMs: number;
  queueMs: number;
  reuseMs: number;
  /** Expected milliseconds to the first token, but for what is equal everywhere. Lower is better. */
  totalMs: number;
}

/** Network distance + expected queue − expected prefix reuse. */
export function poolCost(facts: PoolFacts): PoolCost {
  const queueMs = facts.queuedTokens / facts.tokensPerMs + facts.decodePressure * DECODE_MS_PER_REQUEST;
  const reuseMs = Math.min(facts.cachedTokens, facts.promptTokens) / facts.tokensPerMs;
  return { distanceMs: facts.distanceMs, queueMs, reuseMs, totalMs: facts.distanceMs + queueMs - reuseMs };
}
