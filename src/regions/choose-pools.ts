import type { RouterConfig } from "../config/schema.ts";
import { Failure } from "../errors/failure.ts";
import type { Fleet, Model } from "../workers/fleet.ts";
import type { ChoiceInput, Told } from "../workers/policy.ts";
import type { Pool } from "../workers/pool.ts";
import { hashText, type Worker } from "../workers/worker.ts";
import { distances, estimateMs } from "./distance.ts";
import type { Place } from "./place.ts";
import { type PoolCost, poolCost } from "./pool-cost.ts";
import { PoolState } from "./pool-state.ts";
import { admitted, type Candidate, orderPools, shares } from "./spread.ts";
import type { Visit } from "./visit.ts";

/** The part of the configuration that is geography; read anew at each choice, so a reload counts at once. */
export type Geography = Pick<RouterConfig, "regions" | "location">;

/** Which pool is expected to have how much of a prompt cached, from whatever source. */
export interface Reuse {
  /** Other routers tell what they know: then even a single pool has something to ask. */
  readonly sharing: boolean;
  /** Reads the prompt; `tokensIn` answers for it until the next `read`. */
  read(input: ChoiceInput, now: number): void;
  tokensIn(pool: Pool): number;
  /** The worker of the pool that has the most of it. */
  told(pool: Pool): Told | undefined;
  /** The prompt goes to this worker, so it will be there. */
  chosen(worker: Worker, input: ChoiceInput, now: number): void;
}

/** One pool as the choice sees it for a place and a prompt; what `check --explain` prints. */
export interface Explained extends PoolCost {
  pool: Pool;
  allowed: boolean;
  serving: boolean;
  /** Expected share of sessions, 0…1. */
  share: number;
}

/** Characters of a session key that are looked at. */
const KEY_CHARS = 512;

const NOWHERE: Visit = { place: undefined, allowedRegions: undefined };

/**
 * The order of a model's pools for one request: only those that its client's key allows; those that can serve before those that cannot;
 * by cost, spread softly (`spread.ts`). A request that has failed in a pool takes another one first, in another region if there is one.
 */
export class PoolChoice {
  readonly #geography: Geography;
  readonly #fleet: Fleet;
  readonly #reuse: Reuse | undefined;
  readonly #states = new WeakMap<Pool, PoolState>();
  #regions: Geography["regions"] | undefined;
  #places = new Map<string, Place>();

  constructor(geography: Geography, fleet: Fleet, reuse?: Reuse) {
    this.#geography = geography;
    this.#fleet = fleet;
    this.#reuse = reuse;
  }

  /** Whether a request for this model needs a `Visit`: there is something to choose, or a border to keep. */
  matters(model: Model, allowedRegions: readonly string[] | undefined): boolean {
    return allowedRegions !== undefined || (model.pools.length > 1 && this.#geography.regions.length > 0);
  }

  /**
   * Pools to be tried, best first. Throws `forbidden` (403) when the model has no pool in the regions the client's key allows.
   * `failed`: pools in which this request has failed already.
   */
  order(
    model: Model,
    visit: Visit = NOWHERE,
    input: ChoiceInput,
    now: number,
    failed?: ReadonlySet<Pool>,
  ): readonly Pool[] {
    const pools = allowed(model, visit.allowedRegions);
    if (pools.length < 2) return pools;
    const ordered = this.#near ? this.#byCost(pools, visit, input, now) : this.#byLoad(model, pools, input, now);
    return failed === undefined || failed.size === 0 ? ordered : last(ordered, failed);
  }

  /** Whether prompts are remembered at all: there are regions to choose from, or other routers that want to know. */
  get remembers(): boolean {
    return this.#reuse !== undefined && (this.#reuse.sharing || this.#near);
  }

  /** Who in the pool is said, by whomever, to have most of the prompt cached; undefined without other routers. */
  told(pool: Pool, input: ChoiceInput, now: number): Told | undefined {
    if (this.#reuse?.sharing !== true) return undefined;
    this.#reuse.read(input, now);
    return this.#reuse.told(pool);
  }

  /** The request goes to this worker. */
  chosen(worker: Worker, input: ChoiceInput, now: number): void {
    this.#reuse?.chosen(worker, input, now);
  }

  /** A request was answered from the pool; `headersMs` after its leg was sent, undefined where that says nothing about distance. */
  answered(pool: Pool, visit: Visit = NOWHERE, headersMs: number | undefined, now: number): void {
    const state = this.#state(pool);
    state.recovery.succeeded(now);
    if (headersMs !== undefined)
      state.speed.answered(headersMs, estimateMs(this.#from(visit), this.#placeOf(pool.region)), now);
  }

  /** So many prompt tokens that were not cached took so long, from dispatch to answer. */
  prefilled(pool: Pool, visit: Visit = NOWHERE, tokens: number, ms: number, now: number): void {
    const { speed } = this.#state(pool);
    const away = speed.headersMs(now) ?? estimateMs(this.#from(visit), this.#placeOf(pool.region)) ?? 0;
    speed.prefilled(tokens, Math.max(ms - away, ms / 2));
  }

  /** A worker of the pool was not there for a request. True when others have failed there too: the whole pool is to be left alone. */
  failed(pool: Pool, now: number): boolean {
    const { recovery } = this.#state(pool);
    recovery.failed(now);
    return recovery.failures > 1 || recovery.share(true, now) < 1;
  }

  /** The costs of all pools of a model, best first, as a request with `tokens` from that place would find them. */
  explain(model: Model, visit: Visit, tokens: number, now: number): Explained[] {
    const states = model.pools.map((pool) => this.#state(pool));
    for (const state of states) state.refresh(now);
    const costs = this.#costs(states, visit, tokens, undefined, now);
    const isAllowed = (pool: Pool) => visit.allowedRegions === undefined || inside(pool, visit.allowedRegions);
    const parts = shares(
      states.map((state, index) => ({
        capacity: state.serving && isAllowed(state.pool) ? state.capacity * state.recovery.share(true, now) : 0,
        costMs: costs[index]!.totalMs,
      })),
    );
    return states
      .map((state, index) => ({
        ...costs[index]!,
        pool: state.pool,
        allowed: isAllowed(state.pool),
        serving: state.serving,
        share: parts[index]!,
      }))
      .sort((a, b) => Number(b.allowed) - Number(a.allowed) || a.totalMs - b.totalMs);
  }

  get #near(): boolean {
    return this.#geography.regions.length > 0;
  }

  #byLoad(model: Model, pools: readonly Pool[], input: ChoiceInput, now: number): readonly Pool[] {
    const ordered = this.#fleet.pools(pools === model.pools ? model : { ...model, pools }, now);
    return groups(ordered, (pool) => {
      const state = this.#states.get(pool);
      const share = state?.recovery.share(pool.serving(now), now) ?? 1;
      return state === undefined || share === 1 ? 0 : rankOf(state.hash, sessionHash(input), share);
    });
  }

  #byCost(pools: readonly Pool[], visit: Visit, input: ChoiceInput, now: number): Pool[] {
    const states = pools.map((pool) => this.#state(pool));
    for (const state of states) state.refresh(now);
    const shareOf = states.map((state) => state.recovery.share(state.serving, now));
    this.#reuse?.read(input, now);
    const costs = this.#costs(states, visit, input.tokens, this.#reuse, now);
    const session = sessionHash(input);
    // Those out of service come last, but they come: what they refuse with is the answer when there is nobody else.
    const ranks: Candidate<Pool>[][] = [[], [], [], []];
    for (const [index, { pool, hash, capacity, serving }] of states.entries()) {
      const rank = serving ? rankOf(hash, session, shareOf[index]!) : 3;
      ranks[rank]!.push({ pool, hash, capacity, costMs: costs[index]!.totalMs });
    }
    return ranks.flatMap((candidates) => orderPools(candidates, session));
  }

  #costs(
    states: readonly PoolState[],
    visit: Visit,
    promptTokens: number,
    reuse: Reuse | undefined,
    now: number,
  ): PoolCost[] {
    const away = distances(states, this.#from(visit), this.#placeOf, now);
    return states.map(({ pool, queuedTokens, decodePressure, roundTrips, speed }, index) =>
      poolCost({
        distanceMs: away[index]!,
        roundTrips,
        queuedTokens,
        decodePressure,
        tokensPerMs: speed.tokensPerMs,
        promptTokens,
        cachedTokens: reuse?.tokensIn(pool) ?? 0,
      }),
    );
  }

  #from(visit: Visit): Place | undefined {
    return visit.place ?? this.#placeOf(this.#geography.location?.region);
  }

  readonly #placeOf = (region: string | undefined): Place | undefined => {
    const { regions } = this.#geography;
    if (regions !== this.#regions) {
      this.#regions = regions;
      this.#places = new Map(regions.map((entry) => [entry.name, entry]));
    }
    return region === undefined ? undefined : this.#places.get(region);
  };

  #state(pool: Pool): PoolState {
    let state = this.#states.get(pool);
    if (state === undefined) {
      state = new PoolState(pool);
      this.#states.set(pool, state);
    }
    return state;
  }
}

function sessionHash(input: ChoiceInput): number {
  return hashText(input.session().slice(0, KEY_CHARS));
}

/** 0: takes this session; 1: comes back by and by, and this session's turn is later; 2: left alone after failures. */
function rankOf(poolHash: number, session: number, share: number): 0 | 1 | 2 {
  if (share === 0) return 2;
  return admitted(poolHash, session, share) ? 0 : 1;
}

/** Data residency comes before everything else: a pool without a region is in none of them. */
function allowed(model: Model, regions: readonly string[] | undefined): readonly Pool[] {
  if (regions === undefined) return model.pools;
  const pools = model.pools.filter((pool) => inside(pool, regions));
  if (pools.length > 0) return pools;
  throw new Failure("forbidden", {
    status: 403,
    stage: "router",
    message: `Requests with this key may only be served in ${regions.join(", ")}, and the model "${model.id}" has no pool there`,
  });
}

function inside(pool: Pool, regions: readonly string[]): boolean {
  return pool.region !== undefined && regions.includes(pool.region);
}

/** A region usually dies as a whole, so the other pools of a failed one's region are hardly better than itself. */
function last(pools: readonly Pool[], failed: ReadonlySet<Pool>): Pool[] {
  const regions = new Set<string | undefined>();
  for (const { region } of failed) if (region !== undefined) regions.add(region);
  return groups(pools, (pool) => (failed.has(pool) ? 2 : regions.has(pool.region) ? 1 : 0));
}

/** By rank, and within a rank as they stood. */
function groups(pools: readonly Pool[], rank: (pool: Pool) => number): Pool[] {
  return pools
    .map((pool) => ({ pool, rank: rank(pool) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ pool }) => pool);
}
