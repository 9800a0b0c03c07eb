import type { PolicyName } from "../config/policies.ts";
import type { EngineName } from "../engines/dialect.ts";
import type { BreakerState } from "./breaker.ts";
import type { Fleet } from "./fleet.ts";
import type { Pool } from "./pool.ts";
import type { Worker, WorkerRole } from "./worker.ts";

export interface WorkerView {
  name: string;
  model: string;
  pool: string;
  role: WorkerRole;
  engine: EngineName;
  /** For people with the admin key only; never into answers or metrics. */
  url: string;
  weight: number;
  usable: boolean;
  healthy: boolean;
  breaker: BreakerState;
  draining: boolean;
  requestsInFlight: number;
  /** Prompt tokens still to be computed, estimated. */
  queuedTokens: number;
  /** Milliseconds for which it has asked to be left alone; 0 = it has not. */
  avoidedForMs: number;
  /** Milliseconds since the last probe's verdict; null = none yet. */
  probedAgoMs: number | null;
}

export interface PoolView {
  name: string;
  engine: EngineName;
  region: string | null;
  serving: boolean;
  policies: Record<WorkerRole, PolicyName>;
  workers: WorkerView[];
}

export interface ModelView {
  id: string;
  aliases: readonly string[];
  adapters: readonly string[];
  ready: boolean;
  reason: string | null;
  pools: PoolView[];
}

/** The whole fleet as plain data, for `/workers`, `/ready`, the dashboard and the metrics. Holds no key. */
export interface FleetView {
  ready: boolean;
  models: ModelView[];
}

export function snapshot(fleet: Fleet, now: number): FleetView {
  const readiness = new Map(fleet.ready(now).map((entry) => [entry.model, entry]));
  const models = fleet.models().map((model): ModelView => {
    const entry = readiness.get(model.id);
    return {
      id: model.id,
      aliases: model.aliases,
      adapters: model.adapters,
      ready: entry?.ready ?? false,
      reason: entry?.reason ?? null,
      pools: model.pools.map((pool) => poolView(pool, now)),
    };
  });
  return { ready: models.every((model) => model.ready), models };
}

function poolView(pool: Pool, now: number): PoolView {
  return {
    name: pool.name,
    engine: pool.engine,
    region: pool.region ?? null,
    serving: pool.serving(now),
    policies: {
      prefill: pool.policy("prefill").name,
      decode: pool.policy("decode").name,
      aggregated: pool.policy("aggregated").name,
    },
    workers: pool.members().map((worker) => workerView(worker, now)),
  };
}

export function workerView(worker: Worker, now: number): WorkerView {
  const { lastReportAt } = worker.health;
  return {
    name: worker.name,
    model: worker.model,
    pool: worker.pool,
    role: worker.role,
    engine: worker.engine,
    url: worker.url,
    weight: worker.weight,
    usable: worker.usable(now),
    healthy: worker.health.healthy(now),
    breaker: worker.breaker.state(now),
    draining: worker.draining,
    requestsInFlight: worker.load.requests,
    queuedTokens: Math.round(worker.load.tokens),
    avoidedForMs: Math.max(0, worker.avoidUntil - now),
    probedAgoMs: lastReportAt === -Infinity ? null : now - lastReportAt,
  };
}
