/** What the choice of a region looks at, for one pool and one request. Milliseconds and tokens. */
export interface PoolFacts {
  /** One round trip: measured time to headers, or the estimate for the distance. */
  distanceMs: number;
  roundTrips: number;
  /** Prompt tokens to be computed on a prefill (or aggregated) worker before this one. */
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
  const distanceMs = facts.distanceMs * facts.roundTrips;
  return { distanceMs, queueMs, reuseMs, totalMs: distanceMs + queueMs - reuseMs };
}
