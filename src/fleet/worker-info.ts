import type { Fleet } from "../workers/fleet.ts";
import { workerView } from "../workers/snapshot.ts";
import type { Worker, WorkerRole } from "../workers/worker.ts";

/** Names of roles in the SGLang gateway's worker API: one that does the whole request is "regular" there. */
export type WorkerType = "regular" | "prefill" | "decode";

/**
 * A worker as `/workers` shows it. `id` to `bootstrap_port` are named and meant as in the SGLang gateway's worker API, so that scripts
 * written for it read this too; the rest is ours. It holds no key.
 */
export interface WorkerInfo {
  id: string;
  url: string;
  model_id: string;
  worker_type: WorkerType;
  is_healthy: boolean;
  /** Requests it has in hand. */
  load: number;
  connection_mode: "http";
  runtime_type: string;
  /** Prefill workers of SGLang and Mooncake: the port in use, wherever it is known from. */
  bootstrap_port?: number;
  dp_size?: number;
  name: string;
  pool: string;
  weight: number;
  /** `config` | `api` | `dns` */
  origin: string;
  usable: boolean;
  draining: boolean;
  breaker: string;
  queued_tokens: number;
  avoided_for_ms: number;
  probed_ago_ms: number | null;
  /** Where the engine contradicts the configuration. */
  problems: readonly string[];
}

export interface WorkerList {
  workers: WorkerInfo[];
  total: number;
  stats: {
    total_workers: number;
    healthy_workers: number;
    total_models: number;
    total_load: number;
    by_type: Record<WorkerType, number>;
  };
}

export function workerInfo(worker: Worker, now: number, problems: readonly string[]): WorkerInfo {
  const view = workerView(worker, now);
  return {
    id: view.name,
    url: view.url,
    model_id: view.model,
    worker_type: workerType(view.role),
    is_healthy: view.healthy,
    load: view.requestsInFlight,
    connection_mode: "http",
    runtime_type: view.engine,
    ...(worker.role === "prefill" &&
      worker.engine !== "trtllm" && { bootstrap_port: worker.target.bootstrapPort, dp_size: worker.target.dpSize }),
    name: view.name,
    pool: view.pool,
    weight: view.weight,
    origin: worker.origin,
    usable: view.usable,
    draining: view.draining,
    breaker: view.breaker,
    queued_tokens: view.queuedTokens,
    avoided_for_ms: Math.round(view.avoidedForMs),
    probed_ago_ms: view.probedAgoMs === null ? null : Math.round(view.probedAgoMs),
    problems,
  };
}

export function workerList(fleet: Fleet, now: number, problemsOf: (worker: Worker) => readonly string[]): WorkerList {
  const workers = fleet.workers().map((worker) => workerInfo(worker, now, problemsOf(worker)));
  const byType: Record<WorkerType, number> = { regular: 0, prefill: 0, decode: 0 };
  for (const { worker_type: type } of workers) byType[type] += 1;
  return {
    workers,
    total: workers.length,
    stats: {
      total_workers: workers.length,
      healthy_workers: workers.filter((worker) => worker.is_healthy).length,
      total_models: new Set(workers.map((worker) => worker.model_id)).size,
      total_load: workers.reduce((sum, worker) => sum + worker.load, 0),
      by_type: byType,
    },
  };
}

function workerType(role: WorkerRole): WorkerType {
  return role === "aggregated" ? "regular" : role;
}
