export type WorkerRole = "prefill" | "decode" | "aggregated";
export type BreakerState = "closed" | "half-open" | "open";

/** What metrics and dashboard may know of one worker; names only, never an address. */
export interface FleetWorker {
  name: string;
  role: WorkerRole;
  pool: string;
  inFlight: number;
  queuedTokens: number;
  healthy: boolean;
  breaker: BreakerState;
  draining: boolean;
}

/** The router's state at the moment somebody asks for it; called on a scrape and by the dashboard, never per request. */
export interface FleetSnapshot {
  workers: readonly FleetWorker[];
  /** Requests waiting for a place (`limits.queue`). */
  queueLength: number;
}

interface WorkerLike extends Omit<FleetWorker, "inFlight"> {
  requestsInFlight: number;
}

/** What `workers/snapshot.ts` gives, as far as it is looked at here (this room knows no other's types). */
export interface FleetLike {
  models: readonly { pools: readonly { workers: readonly WorkerLike[] }[] }[];
}

/** The fleet's own view, flattened for the gauges; fields that are for the admin's eyes (addresses) stay behind. */
export function fleetSnapshotOf(view: FleetLike, queueLength: number): FleetSnapshot {
  const workers = view.models.flatMap((model) => model.pools.flatMap((pool) => pool.workers.map(fleetWorkerOf)));
  return { workers, queueLength };
}

function fleetWorkerOf(worker: WorkerLike): FleetWorker {
  const { name, role, pool, requestsInFlight, queuedTokens, healthy, breaker, draining } = worker;
  return { name, role, pool, inFlight: requestsInFlight, queuedTokens, healthy, breaker, draining };
}
