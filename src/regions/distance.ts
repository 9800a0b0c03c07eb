import { distanceKm, estimatedRoundTripMs, type Place } from "./place.ts";
import type { PoolState } from "./pool-state.ts";

/**
 * Time to headers holds what the engine does before it answers, and that is about the same everywhere. A pool that nobody has measured
 * yet is granted so much of it; beyond, the measured ones are suspected to be slow, and the others get a try.
 */
const COMMON_MS = 100;

/**
 * Milliseconds to each pool, but for what is equal for all of them: measured where there was traffic, else by the great circle. Where no
 * place is known at all, an unmeasured pool is taken to be near, so that its first request measures it.
 */
export function distances(
  states: readonly PoolState[],
  from: Place | undefined,
  placeOf: (region: string | undefined) => Place | undefined,
  now: number,
): number[] {
  const estimates = states.map(({ pool }) => estimateMs(from, placeOf(pool.region)));
  let least = Number.POSITIVE_INFINITY;
  for (const [index, { speed }] of states.entries()) {
    const excess = estimates[index] === undefined ? speed.headersMs(now) : speed.excessMs(now);
    if (excess !== undefined && excess < least) least = excess;
  }
  const common = least === Number.POSITIVE_INFINITY ? 0 : Math.max(0, least);
  return states.map(({ speed }, index) => {
    const estimate = estimates[index];
    const excess = estimate === undefined ? speed.headersMs(now) : speed.excessMs(now);
    return (estimate ?? 0) + (excess === undefined ? -Math.max(0, common - COMMON_MS) : excess - common);
  });
}

/** By the great circle; undefined where one of the places is not known. */
export function estimateMs(from: Place | undefined, to: Place | undefined): number | undefined {
  return from === undefined || to === undefined ? undefined : estimatedRoundTripMs(distanceKm(from, to));
}
