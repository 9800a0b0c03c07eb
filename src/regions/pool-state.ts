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
const RISE_MS = 1_500;
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
  /** Prompt tokens to be computed before a new one gets its turn, by weight of the workers; smoothed. */
  queuedTokens = 0;
  /** Requests in hand of those that decode, by their weight; smoothed. */
  decodePressure = 0;
  #at = Number.NEGATIVE_INFINITY;

  constructor(pool: Pool) {
    this.pool = pool;
    this.hash = hashText(pool.topic);
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
    this.queuedTokens = follow(this.queuedTokens, computing.tokens, elapsed);
    this.decodePressure = follow(this.decodePressure, decoding.requests, elapsed);
  }
}

/** Per unit of weight. */
interface Sum {
  weight: number;
  tokens: number;
  requests: number;
}

function sum(lists: readonly (readonly Worker[])[]): Sum {
  let weight = 0;
  let tokens = 0;
  let requests = 0;
  for (const list of lists) {
    for (const worker of list) {
      weight += worker.weight;
      tokens += worker.load.tokens + worker.elsewhere.tokens;
      requests += worker.load.requests + worker.elsewhere.requests;
    }
  }
  return { weight, tokens: weight === 0 ? 0 : tokens / weight, requests: weight === 0 ? 0 : requests / weight };
}

function follow(known: number, seen: number, elapsed: number): number {
  if (elapsed === Number.POSITIVE_INFINITY) return seen;
  return known + (seen - known) * -Math.expm1(-elapsed / (seen > known ? RISE_MS : FALL_MS));
}
