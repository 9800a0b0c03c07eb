/**
 * How strongly cost decides: a pool that is dearer by so much (or by this share of the best) gets about a third of the best one's share of sessions.
 * Small differences thus move few sessions and large ones nearly all: there is no threshold at which a herd swings.
 */
const SOFT_MS = 10;
const SOFT_SHARE = 0.15;
/** A pool whose only worker is just being probed has no capacity, and still its place in the order. */
const LEAST_CAPACITY = 1e-6;

/** What gives a pool its weight. */
export interface Weighed {
  costMs: number;
  /** Weight of its workers. */
  capacity: number;
}

export interface Candidate<T> extends Weighed {
  pool: T;
  /** Equal in every router for the same pool. */
  hash: number;
}

/**
 * Orders pools for one session: weighted rendezvous hashing, where a pool's weight is its capacity and falls with its cost. The same
 * session gets the same pool from every router that sees similar costs, without shared state; when costs or the fleet change, only
 * sessions whose pool lost weight move.
 */
export function orderPools<T>(candidates: readonly Candidate<T>[], sessionHash: number): T[] {
  if (candidates.length < 2) return candidates.map(({ pool }) => pool);
  const logWeight = weigher(candidates);
  return (
    candidates
      // −ln(u)/w is exponentially distributed with rate w: the least of them is candidate i with probability wᵢ/Σw. Its logarithm has
      // the same order, and a pool a second away still has one before a pool two seconds away, where the weights themselves are all 0.
      .map((candidate) => ({
        candidate,
        draw: Math.log(-Math.log(unit(candidate.hash, sessionHash))) - logWeight(candidate),
      }))
      .sort((a, b) => a.draw - b.draw)
      .map(({ candidate }) => candidate.pool)
  );
}

/** The share of sessions that each candidate gets, 0…1; all 0 when none has capacity. */
export function shares(candidates: readonly Weighed[]): number[] {
  const able = candidates.filter(({ capacity }) => capacity > 0);
  const logWeight = weigher(able);
  const weights = candidates.map((candidate) => (candidate.capacity > 0 ? Math.exp(logWeight(candidate)) : 0));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => (sum === 0 ? 0 : weight / sum));
}

function weigher(candidates: readonly Weighed[]): (candidate: Weighed) => number {
  let best = Number.POSITIVE_INFINITY;
  for (const { costMs } of candidates) best = Math.min(best, costMs);
  const soft = Math.max(SOFT_MS, Math.abs(best) * SOFT_SHARE);
  return ({ capacity, costMs }) => Math.log(Math.max(LEAST_CAPACITY, capacity)) + (best - costMs) / soft;
}

/**
 * Whether a session is among the share (0…1) that a recovering pool gets. As the share grows sessions come in and none goes out. A factor
 * on the weight would not do: where a pool is much cheaper than the others, a twentieth of its weight still draws most sessions.
 */
export function admitted(poolHash: number, sessionHash: number, share: number): boolean {
  return share >= 1 || unit(~poolHash, sessionHash) < share;
}

/** Two 32-bit hashes → a number in (0, 1), well mixed (murmur3's finaliser). */
function unit(a: number, b: number): number {
  let h = (a ^ Math.imul(b, 0x9e3779b1)) >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  h = (h ^ (h >>> 16)) >>> 0;
  return (h + 0.5) / 4294967296;
}
