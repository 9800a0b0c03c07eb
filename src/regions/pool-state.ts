import { dialectFor } from "../engines/registry.ts";
import type { Pool } from "../workers/pool.ts";
import { hashText, type Worker } from "../workers/worker.ts";
import { PoolSpeed } from "./pool-speed.ts";
import { Recovery } from "./recovery.ts";

/** So long the sums over a pool's workers stand: summing up a thousand for every request would cost more than the choice. */
const FRESH_MS = 10;
/**
 * Time constants of the expected queue. Reports of other routers are up to a second old: a router that followed every change at once
 * would send all its sessions away, and call all of them back (measured in `bench/simulation`). Up faster than down is hysteresis.
 */
const RISE_MS = 2_500;
const FALL_MS = 6_000;

/** What the choice of a region knows about one pool: sums over its workers, and what traffic has taught. */
export class PoolState {
  readonly pool: Pool;
  /** Equal in every router for a pool of the same name. */
  readonly hash: number;
  readonly speed = new PoolSpeed();
  readonly recovery = new Recovery();
  serving = false;
  /** Weights of the workers that compute prompts. */
  capacity = 0;
  /** Prompt tokens to be computed before a new one gets its turn; smoothed. */
  queuedTokens = 0;
  /** Round trips from dispatch to first token: two where decode is sent after prefill has answered. */
  readonly roundTrips: number;
  /** Requests in hand of those that decode, by their weight; smoothed. */
  decodePressure = 0;
  #at = Number.NEGATIVE_INFINITY;

  constructor(pool: Pool) {
    this.pool = pool;
    this.hash = hashText(pool.topic);
    this.roundTrips = dialectFor(pool.engine, pool.connector).concurrent ? 1 : 2;
  }

  /** Brings the sums up to date. */
  refresh(now: number): void {
    const elapsed = now - this.#at;
    if (elapsed < FRESH_MS) return;
    this.#at = now;
    const { pool } = this;
    this.serving = pool.serving(now);
    const aggregated = pool.set("aggregated").candidates(now);
    const computing = sum([pool.set("prefill").candidates(now), aggregated]);
    const decoding = sum([pool.set("decode").candidates(now), aggregated]);
    this.capacity = computing.weight;
    this.queuedTokens = follow(this.queuedTokens, computing.tokens * waiting(computing), elapsed);
    this.decodePressure = follow(this.decodePressure, decoding.requests, elapsed);
  }
}

/** Per unit of weight. */
interface Sum {
  count: number;
  weight: number;
  /** Share of the workers that have something in hand, 0…1. */
  busy: number;
  tokens: number;
  requests: number;
}

function sum(lists: readonly (readonly Worker[])[]): Sum {
  let count = 0;
  let weight = 0;
  let busy = 0;
  let tokens = 0;
  let requests = 0;
  for (const list of lists) {
    for (const worker of list) {
      const inHand = worker.load.requests + worker.elsewhere.requests;
      count += 1;
      weight += worker.weight;
      tokens += worker.load.tokens + worker.elsewhere.tokens;
      requests += inHand;
      busy += worker.weight * Math.min(1, inHand);
    }
  }
  if (weight === 0) return { count, weight, busy: 1, tokens: 0, requests: 0 };
  return { count, weight, busy: busy / weight, tokens: tokens / weight, requests: requests / weight };
}

/**
 * How much of the mean backlog a new prompt has to wait for: none as long as there is an idle worker, all of it when everybody is busy, and in
 * between by the power that queueing theory has for that many servers (Sakasegawa's approximation for M/M/c).
 */
function waiting({ busy, count }: Sum): number {
  return busy ** (Math.sqrt(2 * (count + 1)) - 1);
}

function follow(known: number, seen: number, elapsed: number): number {
  if (elapsed === Number.POSITIVE_INFINITY) return seen;
  return known + (seen - known) * -Math.expm1(-elapsed / (seen > known ? RISE_MS : FALL_MS));
}
