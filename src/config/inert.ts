import type { PoolConfig, RouterConfig, WorkerConfig } from "./schema.ts";

/** Settings of one kind that would be accepted and do nothing; each line names the field first. */
type InertRule = (config: RouterConfig) => string[];

/** Which protocols read which of a worker's keys, and the value it has when nobody set it (contract section 2, `e.g.` lines). */
const WORKER_KEYS: readonly {
  key: keyof WorkerConfig;
  unset: unknown;
  readBy: string;
  reads(pool: PoolConfig): boolean;
}[] = [
  { key: "bootstrapPort", unset: undefined, readBy: "sglang and mooncake", reads: usesBootstrap },
  { key: "dpSize", unset: undefined, readBy: "sglang and mooncake", reads: usesBootstrap },
  { key: "engineId", unset: undefined, readBy: "nixl-push", reads: usesPush },
  { key: "kvHost", unset: undefined, readBy: "nixl-push", reads: usesPush },
  { key: "kvPort", unset: 5600, readBy: "nixl-push", reads: usesPush },
  { key: "tpSize", unset: 1, readBy: "nixl-push", reads: usesPush },
  { key: "ppSize", unset: 1, readBy: "nixl-push", reads: usesPush },
];

function usesBootstrap(pool: PoolConfig): boolean {
  return pool.engine === "sglang" || pool.connector === "mooncake";
}

function usesPush(pool: PoolConfig): boolean {
  return pool.connector === "nixl-push";
}

function inertWorkerKeys(config: RouterConfig): string[] {
  const lines: string[] = [];
  for (const [m, model] of config.models.entries()) {
    for (const [p, pool] of model.pools.entries()) {
      for (const role of ["prefill", "decode", "workers"] as const) {
        for (const [w, worker] of pool[role].entries()) {
          for (const { key, unset, readBy, reads } of WORKER_KEYS) {
            if (worker[key] === unset || (role === "prefill" && reads(pool))) continue;
            lines.push(`models[${m}].pools[${p}].${role}[${w}].${key}: only prefill workers of ${readBy} use it`);
          }
        }
      }
    }
  }
  return lines;
}

function inertGeography(config: RouterConfig): string[] {
  if (config.regions.length > 0) return [];
  const lines: string[] = [];
  if (config.geoHeader !== undefined) lines.push("geoHeader: without regions there is nowhere to be near to");
  if (config.location !== undefined) lines.push("location: without regions there is nowhere to be near to");
  return lines;
}

const RULES: readonly InertRule[] = [inertWorkerKeys, inertGeography];

/** The settings of a valid configuration that have no effect, one line each with the field first; printed at start. */
export function inertSettings(config: RouterConfig): string[] {
  return RULES.flatMap((rule) => rule(config));
}
