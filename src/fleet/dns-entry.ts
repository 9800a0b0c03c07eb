import type { RouterConfig, WorkerConfig } from "../config/schema.ts";
import { DNS_PREFIX } from "../config/worker-url.ts";
import type { Worker, WorkerRole } from "../workers/worker.ts";

const ROLES: readonly (readonly ["prefill" | "decode" | "workers", WorkerRole])[] = [
  ["prefill", "prefill"],
  ["decode", "decode"],
  ["workers", "aggregated"],
];

export interface Place {
  model: string;
  pool: string;
}

/** A `dns+` address of the configuration, and what it stands for. */
export interface Entry extends Place {
  role: WorkerRole;
  config: WorkerConfig;
  apiKey: string | undefined;
  /** By URL. */
  members: Map<string, Worker>;
  /** What the last answer listed; more than the members, where an address is another's worker. */
  listed: ReadonlySet<string>;
  /** It has listed somebody since it is configured. */
  answered: boolean;
  nextAt: number;
  lostAt: number;
  /** Number of the lookup under way, 0 = none. */
  lookup: number;
  failing: boolean;
}

/** Of one that nobody has been asked about yet; it is due at once. */
export function newEntry(place: Place, role: WorkerRole, config: WorkerConfig, apiKey: string | undefined): Entry {
  const { model, pool } = place;
  const lookup = { nextAt: -Infinity, lostAt: Infinity, lookup: 0, failing: false };
  return { model, pool, role, config, apiKey, members: new Map(), listed: new Set(), answered: false, ...lookup };
}

/** All workers of a configuration whose address is a name to be looked up. */
export function namedWorkers(
  config: Pick<RouterConfig, "models">,
): { model: string; pool: string; role: WorkerRole; worker: WorkerConfig; path: string }[] {
  return config.models.flatMap((model, m) =>
    model.pools.flatMap((pool, p) =>
      ROLES.flatMap(([list, role]) =>
        pool[list].flatMap((worker, w) =>
          worker.url.startsWith(DNS_PREFIX)
            ? [{ model: model.id, pool: pool.name, role, worker, path: `models[${m}].pools[${p}].${list}[${w}].url` }]
            : [],
        ),
      ),
    ),
  );
}

/** Which entry it is for a reload. Not by name: that may be its place in a list, from which another one is taken out. */
export function keyOf({ model, pool, role, worker }: Place & { role: WorkerRole; worker: WorkerConfig }): string {
  return JSON.stringify([model, pool, role, worker.url]);
}

export function inPool(entries: Iterable<Entry>, { model, pool }: Place): Entry[] {
  return [...entries].filter((entry) => entry.model === model && entry.pool === pool);
}

/** Of the key of a pool's addresses. */
export function placeOf(key: string): Place {
  const [model = "", pool = ""] = JSON.parse(key) as string[];
  return { model, pool };
}
