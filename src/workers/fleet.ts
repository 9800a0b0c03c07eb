import type { PoolConfig, RouterConfig, WorkerConfig } from "../config/schema.ts";
import { createPolicy, type PolicyPorts } from "./policies/create.ts";
import type { Policy } from "./policy.ts";
import { Pool } from "./pool.ts";
import { type ConfiguredTarget, Worker, type WorkerEvents, type WorkerOrigin, type WorkerRole } from "./worker.ts";

/** The part of the configuration the fleet reads. */
export type FleetConfig = Pick<RouterConfig, "models" | "policy" | "breaker" | "health">;

/** Keys the router sends to workers, by the worker's name (`Secrets.workerKeys`). */
export type WorkerKeys = ReadonlyMap<string, string>;

export interface FleetOptions extends PolicyPorts {
  events?: WorkerEvents | undefined;
}

/** A model clients may name, and the pools that serve it. */
export interface Model {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly adapters: readonly string[];
  readonly pools: readonly Pool[];
}

export interface ResolvedModel {
  model: Model;
  /** The name the engines know when it is another than the client used (an alias); undefined: the client's goes as it is. */
  engineModel: string | undefined;
}

export interface ModelReadiness {
  model: string;
  ready: boolean;
  /** What is missing, per pool; undefined when ready. Names no addresses. */
  reason: string | undefined;
}

/** Why a worker cannot join: its pool is not there, or its name or address is taken. */
export class JoinError extends Error {
  override readonly name = "JoinError";
  readonly why: "unknown" | "taken";

  constructor(why: "unknown" | "taken", message: string) {
    super(message);
    this.why = why;
  }
}

/** A place for a worker that joins at run time. */
export interface JoinRequest {
  model: string;
  pool: string;
  role: WorkerRole;
  worker: WorkerConfig;
  /** Default `api`. */
  origin?: WorkerOrigin;
}

/** Addresses with this prefix stand for as many workers as the host has address records; discovery adds those at run time. */
const DISCOVERED = "dns+";

const ROLES: readonly (readonly ["prefill" | "decode" | "workers", WorkerRole])[] = [
  ["prefill", "prefill"],
  ["decode", "decode"],
  ["workers", "aggregated"],
];

/**
 * All workers of all models. Built once from a checked configuration; `reload`, `add`, `remove` and `drain` change it between two
 * requests, never within one: a request keeps the Worker objects it has leased.
 */
export class Fleet {
  readonly #options: FleetOptions;
  #config: FleetConfig;
  #models = new Map<string, Model>();
  #names = new Map<string, ResolvedModel>();
  #workers = new Map<string, Worker>();
  /** Workers that joined at run time: a reload does not take them away. */
  readonly #joined = new Set<Worker>();

  constructor(config: FleetConfig, keys: WorkerKeys, options: FleetOptions) {
    this.#options = options;
    this.#config = config;
    this.reload(config, keys);
  }

  /** The model a client means by a name: id, alias or adapter, compared exactly. Undefined: 404 `model_not_found`. */
  resolve(name: string): ResolvedModel | undefined {
    return this.#names.get(name);
  }

  models(): readonly Model[] {
    return [...this.#models.values()];
  }

  model(id: string): Model | undefined {
    return this.#models.get(id);
  }

  /** Every pool of every model. */
  allPools(): Pool[] {
    return this.models().flatMap((model) => model.pools);
  }

  /**
   * The model's pools, best first: lower `rank` (distance, region), then those that can serve at all, then the least loaded.
   * With one pool it is that list itself, without any work.
   */
  pools(model: Model, now: number, rank: (pool: Pool) => number = equallyNear): readonly Pool[] {
    if (model.pools.length < 2) return model.pools;
    const scored = model.pools.map((pool) => ({
      pool,
      rank: rank(pool),
      serving: pool.serving(now),
      load: pool.pressure(now),
    }));
    scored.sort(
      (a, b) =>
        Number(b.serving) - Number(a.serving) || a.rank - b.rank || (a.load < b.load ? -1 : a.load > b.load ? 1 : 0),
    );
    return scored.map(({ pool }) => pool);
  }

  worker(name: string): Worker | undefined {
    return this.#workers.get(name);
  }

  workers(): readonly Worker[] {
    return [...this.#workers.values()];
  }

  /** Readiness per model (contract section 3, /ready). */
  ready(now: number): ModelReadiness[] {
    return this.models().map((model) => {
      const ready = model.pools.some((pool) => pool.serving(now));
      return {
        model: model.id,
        ready,
        reason: ready ? undefined : model.pools.map((pool) => missing(pool, now)).join("; "),
      };
    });
  }

  /** Workers whose probe is due (the part of a worker's health that needs somebody to act). */
  due(now: number): Worker[] {
    const due: Worker[] = [];
    for (const worker of this.#workers.values()) if (worker.health.due(now)) due.push(worker);
    return due;
  }

  /** Lets a worker in at run time. Throws a `JoinError` that says what is wrong. */
  add({ model, pool: poolName, role, worker: config, origin = "api" }: JoinRequest, apiKey?: string): Worker {
    const pool = this.#models.get(model)?.pools.find((candidate) => candidate.name === poolName);
    if (pool === undefined) throw new JoinError("unknown", `No pool "${poolName}" serves the model "${model}"`);
    if (this.#workers.has(config.name))
      throw new JoinError("taken", `A worker with the name "${config.name}" is there already`);
    // One engine is one worker of a pool, whatever its role (contract section 2).
    if (pool.members().some((member) => member.url === config.url)) {
      throw new JoinError("taken", `The pool "${poolName}" has a worker with that address already`);
    }
    const worker = this.#join(pool, role, config, apiKey, origin);
    this.#joined.add(worker);
    return worker;
  }

  /** Takes a worker out at once. Requests that are with it go on, and their leases lower its own counters. False: no such worker. */
  remove(name: string): boolean {
    const worker = this.#workers.get(name);
    if (worker === undefined) return false;
    this.#workers.delete(name);
    this.#joined.delete(worker);
    for (const pool of this.allPools()) {
      if (!pool.set(worker.role).remove(worker)) continue;
      pool.policy(worker.role).forget?.(worker);
      pool.retire(worker);
    }
    return true;
  }

  /** New settings for a worker that joined at run time; its counters stay. False: no such worker. */
  configure(name: string, config: WorkerConfig, apiKey: string | undefined): boolean {
    const worker = this.#workers.get(name);
    worker?.configure(settingsOf(config, apiKey));
    return worker !== undefined;
  }

  /** Gives a worker nothing new. It is drained when its `load.requests` is 0. Undefined: no such worker. */
  drain(name: string): Worker | undefined {
    const worker = this.#workers.get(name);
    if (worker !== undefined) worker.draining = true;
    return worker;
  }

  /**
   * Takes over a checked configuration. Workers that stay (same model, pool, role, name and address) keep their objects: counters, breaker,
   * health, draining. A drained address stays so under another name too. Workers that joined at run time stay as long as their pool does
   * and nothing else is configured at their address; one that is configured with its name and address is a configured one from then on.
   * Nothing is changed if it throws.
   */
  reload(config: FleetConfig, keys: WorkerKeys): void {
    const configured = new Set<string>();
    for (const { pools } of config.models) {
      for (const pool of pools) {
        for (const [list] of ROLES) {
          for (const worker of pool[list]) {
            keyOf(worker, keys);
            configured.add(worker.name);
          }
        }
      }
    }
    // A configured worker takes its name back from one that joined with it.
    for (const worker of this.#joined) if (configured.has(worker.name)) this.#joined.delete(worker);
    const old = this.#models;
    const names = new Map<string, ResolvedModel>();
    const models = new Map<string, Model>();
    const stay = new Set<Worker>();
    this.#config = config;
    const before = this.#workers;
    this.#workers = new Map();
    for (const entry of config.models) {
      const pools = entry.pools.map((poolConfig) => {
        const known = old
          .get(entry.id)
          ?.pools.find((pool) => pool.name === poolConfig.name && pool.engine === poolConfig.engine);
        return this.#syncPool(entry.id, poolConfig, known, keys, stay);
      });
      const model: Model = { id: entry.id, aliases: entry.aliases, adapters: entry.adapters, pools };
      models.set(entry.id, model);
      names.set(entry.id, { model, engineModel: undefined });
      for (const alias of entry.aliases) names.set(alias, { model, engineModel: entry.id });
      for (const adapter of entry.adapters) names.set(adapter, { model, engineModel: undefined });
    }
    for (const worker of before.values()) if (!stay.has(worker)) this.#joined.delete(worker);
    this.#models = models;
    this.#names = names;
  }

  #syncPool(model: string, config: PoolConfig, known: Pool | undefined, keys: WorkerKeys, stay: Set<Worker>): Pool {
    const policies = this.#policies();
    const pool = known ?? new Pool(config.name, model, config.engine, config, policies);
    if (known !== undefined) pool.configure(config, policies);
    // An engine is one, whatever it is called: unnamed workers have the names of their places, and one that is taken out moves them all.
    const drained = new Set<string>();
    for (const { url, draining } of pool.members()) if (draining) drained.add(url);
    const configured = new Set<string>();
    for (const [list] of ROLES) for (const { url } of config[list]) configured.add(url);
    for (const [list, role] of ROLES) {
      const set = pool.set(role);
      const wanted = new Map(config[list].map((worker) => [worker.url, worker]));
      for (const worker of set.members) {
        const settings = wanted.get(worker.url);
        // A new name is another worker to metrics and to people, so it gets an object of its own.
        if (settings !== undefined && settings.name === worker.name) {
          worker.configure(settingsOf(settings, keyOf(settings, keys)));
          worker.origin = "config";
          wanted.delete(worker.url);
          this.#joined.delete(worker);
        } else if (configured.has(worker.url) || !this.#joined.has(worker)) {
          set.remove(worker);
          pool.retire(worker);
          pool.policy(role).forget?.(worker);
          continue;
        }
        worker.breaker.configure(this.#config.breaker);
        worker.health.configure(this.#config.health);
        stay.add(worker);
        this.#workers.set(worker.name, worker);
      }
      for (const worker of wanted.values()) {
        if (worker.url.startsWith(DISCOVERED)) continue;
        const joined = this.#join(pool, role, worker, keyOf(worker, keys));
        joined.draining = drained.has(worker.url);
        stay.add(joined);
      }
    }
    return pool;
  }

  #policies(): Record<WorkerRole, Policy> {
    const { prefill, decode } = this.#config.policy;
    return {
      prefill: createPolicy(prefill, this.#options),
      decode: createPolicy(decode, this.#options),
      aggregated: createPolicy(decode, this.#options),
    };
  }

  #join(
    pool: Pool,
    role: WorkerRole,
    config: WorkerConfig,
    apiKey: string | undefined,
    origin: WorkerOrigin = "config",
  ): Worker {
    const worker = new Worker({
      ...settingsOf(config, apiKey),
      name: config.name,
      role,
      url: config.url,
      model: pool.model,
      pool: pool.name,
      engine: pool.engine,
      breaker: this.#config.breaker,
      health: this.#config.health,
      events: this.#options.events,
      origin,
    });
    pool.set(role).add(worker);
    this.#workers.set(worker.name, worker);
    return worker;
  }
}

function settingsOf(
  config: WorkerConfig,
  apiKey: string | undefined,
): { weight: number; apiKey: string | undefined; target: ConfiguredTarget } {
  const { bootstrapHost, bootstrapPort, dpSize, engineId, kvHost, kvPort, tpSize, ppSize } = config;
  return {
    weight: config.weight,
    apiKey,
    target: { bootstrapHost, bootstrapPort, dpSize, engineId, kvHost, kvPort, tpSize, ppSize },
  };
}

/** A key that is named and not there must not turn into a request without one (it was refused at start; here it is a fault of ours). */
function keyOf(config: WorkerConfig, keys: WorkerKeys): string | undefined {
  if (config.apiKeyEnv === undefined) return undefined;
  const key = keys.get(config.name);
  if (key === undefined) throw new Error(`The key of worker "${config.name}" (${config.apiKeyEnv}) was not loaded`);
  return key;
}

function missing(pool: Pool, now: number): string {
  const lacks: string[] = [];
  for (const [list, role] of ROLES) {
    const { members } = pool.set(role);
    if (members.length > 0 && !pool.set(role).serving(now)) {
      lacks.push(`none of ${members.length} ${list === "workers" ? "aggregated" : list} workers is usable`);
    } else if (members.length === 0 && role !== "aggregated" && pool.workers.length === 0) {
      lacks.push(`it has no ${list} workers`);
    }
  }
  return `pool "${pool.name}": ${lacks.join(", ")}`;
}

function equallyNear(): number {
  return 0;
}
