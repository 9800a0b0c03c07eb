import type { RouterConfig } from "../config/schema.ts";
import type { EngineName } from "../engines/dialect.ts";
import type { ChoiceInput } from "./policy.ts";
import type { Pool } from "./pool.ts";
import type { Worker, WorkerRole } from "./worker.ts";

/** Ways a request can go before any worker has been chosen. */
export type RequestPath = "disaggregated" | "aggregated" | "decode-only";

/**
 * Why there is no way: nobody of that role is usable (503), or the endpoint cannot be split on this engine and the pool has no
 * aggregated workers (400, `param: "endpoint"`).
 */
export type PathRefusal = "no_prefill_workers" | "no_decode_workers" | "endpoint";

export type PathChoice = { path: RequestPath } | { refusal: PathRefusal };

export interface PathFacts {
  engine: EngineName;
  /** The dialect can split this API, and nothing in the request forbids it. */
  splits: boolean;
  /** Estimated prompt tokens. */
  tokens: number;
  /** Of these, what a decode worker is expected to have cached. */
  cachedTokens: number;
  /** Whether a worker of the role can be used now. */
  prefill: boolean;
  decode: boolean;
  aggregated: boolean;
  /** Whether the pool has aggregated workers at all. */
  hasAggregated: boolean;
  /** Whether the pool has prefill or decode workers at all. */
  hasSplit: boolean;
}

export type Disaggregation = RouterConfig["disaggregation"];

/**
 * Which way a request goes in a pool (contract sections 2 and 3). A split when it can be had, unless little is left to compute
 * (`minPromptTokens`, less what decode has cached): then one worker does it all, an aggregated one if there is one. Aggregated
 * workers also step in when a leg of the split has nobody: they are there for whole requests, and /ready counts them. Decode workers
 * step in for prefill only where `onNoPrefill` says so, and never on sglang, whose decode servers refuse requests without a room.
 */
export function choosePath(facts: PathFacts, { minPromptTokens, onNoPrefill }: Disaggregation): PathChoice {
  const { aggregated, decode, prefill } = facts;
  if (!facts.hasSplit || !facts.splits) {
    if (aggregated) return { path: "aggregated" };
    return { refusal: facts.hasAggregated ? "no_decode_workers" : "endpoint" };
  }
  const decodeAlone = decode && facts.engine !== "sglang";
  if (minPromptTokens > 0 && facts.tokens - facts.cachedTokens < minPromptTokens) {
    if (aggregated) return { path: "aggregated" };
    if (decodeAlone) return { path: "decode-only" };
  }
  if (prefill && decode) return { path: "disaggregated" };
  if (aggregated) return { path: "aggregated" };
  if (!prefill && decodeAlone && onNoPrefill === "decode-only") return { path: "decode-only" };
  return { refusal: prefill ? "no_decode_workers" : "no_prefill_workers" };
}

/** Workers that this request has been tried on in vain, while health checks and breakers still think well of them. */
export interface AlreadyTried {
  prefill: ReadonlySet<Worker>;
  decode: ReadonlySet<Worker>;
  /** The last of them was there, and has answered with an error: it is not none, whose work decode might do (`onNoPrefill`). */
  answered: boolean;
}

/**
 * `choosePath` for a pool as it is now. The prompt is hashed only if `minPromptTokens` could make a difference. Where a role has nobody
 * left that has not been tried in vain, another way is better than the same worker again, if there is one.
 */
export function pathIn(
  pool: Pool,
  input: ChoiceInput,
  splits: boolean,
  disaggregation: Disaggregation,
  now: number,
  tried?: AlreadyTried,
  lastResort = false,
): PathChoice {
  const prefill = takers(pool, "prefill", now, lastResort);
  const decode = takers(pool, "decode", now, lastResort);
  const { minPromptTokens } = disaggregation;
  const undecided = minPromptTokens > 0 && input.tokens >= minPromptTokens && splits && decode.length > 0;
  const facts: PathFacts = {
    engine: pool.engine,
    splits,
    tokens: input.tokens,
    cachedTokens: undecided ? (pool.policy("decode").reuse?.(decode, input) ?? 0) : 0,
    prefill: prefill.length > 0,
    decode: decode.length > 0,
    aggregated: takers(pool, "aggregated", now, lastResort).length > 0,
    hasAggregated: pool.workers.length > 0,
    hasSplit: pool.prefill.length > 0 || pool.decode.length > 0,
  };
  const choice = choosePath(facts, disaggregation);
  if (tried === undefined || !("path" in choice) || choice.path !== "disaggregated") return choice;
  facts.prefill = !prefill.every((worker) => tried.prefill.has(worker));
  facts.decode = !decode.every((worker) => tried.decode.has(worker));
  const other = choosePath(facts, disaggregation);
  if (!("path" in other) || (tried.answered && other.path === "decode-only")) return choice;
  return other;
}

function takers(pool: Pool, role: WorkerRole, now: number, lastResort: boolean): readonly Worker[] {
  const set = pool.set(role);
  return lastResort ? set.lastResort(now) : set.candidates(now);
}
