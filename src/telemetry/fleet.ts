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
