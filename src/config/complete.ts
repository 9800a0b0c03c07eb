import type { PolicyName } from "./policies.ts";
import type { ConfigEntry, PoolEntry, RouterConfig, WorkerConfig } from "./schema.ts";

/** `workers` is the platform whose isolates share no memory (contract section 2: policy, fanout). */
export type Platform = "server" | "workers";

/** Six connections may wait for headers there, and a split takes two. */
const WORKERS_MAX_FANOUT = 3;

/** What is left 30 s after a response is killed there, so a tail is cut by us before, and its worker let go in order. */
const WORKERS_MAX_TAIL_MS = 25_000;

/** Fills in what depends on more than one field: names, the connector, the platform's policies. `config` has been checked. */
export function completeConfig(config: ConfigEntry, platform: Platform): RouterConfig {
  const stateless: PolicyName | undefined = platform === "workers" ? "consistent-hash" : undefined;
  const nameWorker = workerNamer(config);
  return {
    ...config,
    models: config.models.map((model) => {
      const poolNames = new Set(model.pools.map((pool) => pool.name));
      return {
        ...model,
        pools: model.pools.map(function completePool(pool, p): RouterConfig["models"][number]["pools"][number] {
          return {
            ...pool,
            name: pool.name ?? free(p === 0 ? "default" : `pool-${p + 1}`, poolNames),
            ...(pool.engine === "vllm" ? { connector: pool.connector ?? "nixl" } : {}),
            prefill: pool.prefill.map((worker) => nameWorker(worker, "prefill")),
            decode: pool.decode.map((worker) => nameWorker(worker, "decode")),
            workers: pool.workers.map((worker) => nameWorker(worker, "worker")),
          };
        }),
      };
    }),
    policy: {
      prefill: config.policy.prefill ?? stateless ?? "prefix-aware",
      decode: config.policy.decode ?? stateless ?? "least-load",
    },
    timeouts: {
      ...config.timeouts,
      tailMs: platform === "workers" ? Math.min(config.timeouts.tailMs, WORKERS_MAX_TAIL_MS) : config.timeouts.tailMs,
    },
    limits: {
      ...config.limits,
      fanout: platform === "workers" ? Math.min(config.limits.fanout, WORKERS_MAX_FANOUT) : config.limits.fanout,
    },
  };
}

/**
 * Names workers by their role and place in the file, `prefill-1`, `prefill-2`, on through all pools: never an address
 * (contract section 7), and unique as `/workers/{name}` needs it. Where somebody chose that very name, a suffix is added.
 */
function workerNamer(config: ConfigEntry): (worker: PoolEntry["workers"][number], role: string) => WorkerConfig {
  const taken = new Set<string | undefined>();
  for (const model of config.models) {
    for (const pool of model.pools) {
      for (const worker of [...pool.prefill, ...pool.decode, ...pool.workers]) taken.add(worker.name);
    }
  }
  const counts = new Map<string, number>();
  return function nameWorker(worker, role): WorkerConfig {
    const n = (counts.get(role) ?? 0) + 1;
    counts.set(role, n);
    return { ...worker, name: worker.name ?? free(`${role}-${n}`, taken) };
  };
}

/** `name`, or `name` with the first suffix that makes it a new one. Takes it. */
function free(name: string, taken: Set<string | undefined>): string {
  let out = name;
  for (let i = 2; taken.has(out); i++) out = `${name}-${i}`;
  taken.add(out);
  return out;
}
