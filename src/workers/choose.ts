import { acquire, type Lease } from "./lease.ts";
import type { ChoiceInput, Policy, Told } from "./policy.ts";
import type { Pool } from "./pool.ts";
import type { Worker, WorkerRole } from "./worker.ts";

export interface ChooseOptions {
  /** The router's monotonic clock, milliseconds. */
  now: number;
  /** Workers that have failed this request already. */
  exclude?: ReadonlySet<Worker> | undefined;
  /** Nobody else can take the request: somebody who is only worth a try is better than none. */
  lastResort?: boolean | undefined;
  /** Another policy than the pool's own. */
  policy?: Policy | undefined;
  /** What other routers know of the prompt. */
  told?: Told | undefined;
  /** Told how many tokens of the prompt the chosen worker is expected to have cached, when it is any. */
  reused?: ((tokens: number) => void) | undefined;
}

/**
 * Chooses a worker and counts the request on it in the same tick, so that parallel choices see each other. The caller releases the
 * lease. Undefined: no worker of that role can be used (contract section 4, `no_prefill_workers`/`no_decode_workers`).
 * A worker that is avoided or excluded never makes it undefined by being avoided; by being excluded it does.
 */
export function choose(pool: Pool, role: WorkerRole, input: ChoiceInput, options: ChooseOptions): Lease | undefined {
  const set = pool.set(role);
  const policy = options.policy ?? pool.policy(role);
  let candidates = options.lastResort === true ? set.lastResort(options.now) : set.candidates(options.now);
  if (options.exclude !== undefined && options.exclude.size > 0) {
    candidates = without(candidates, options.exclude);
    // The ones left out may have hidden an avoided worker behind willing ones.
    if (candidates.length === 0) candidates = without(pool.usable(role, options.now), options.exclude);
  }
  const worker = policy.choose(candidates, input, options.told);
  if (worker === undefined) return undefined;
  const { told } = options;
  const known = policy.observe?.(worker, input) ?? 0;
  const cached = told?.worker === worker.name ? Math.max(known, Math.min(told.tokens, input.tokens)) : known;
  if (cached > 0) options.reused?.(cached);
  return acquire(worker, input.tokens - cached, options.now);
}

function without(workers: readonly Worker[], exclude: ReadonlySet<Worker>): readonly Worker[] {
  const left: Worker[] = [];
  for (const worker of workers) if (!exclude.has(worker)) left.push(worker);
  return left;
}
