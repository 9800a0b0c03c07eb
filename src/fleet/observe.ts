import type { FleetSnapshot } from "../telemetry/fleet.ts";
import type { Admission } from "../workers/admission.ts";
import type { Fleet } from "../workers/fleet.ts";
import { workerView } from "../workers/snapshot.ts";

/** The fleet at one moment as the metrics show it: names, never addresses. */
export function observeFleet(fleet: Fleet, admission: Admission, now: number): FleetSnapshot {
  return {
    workers: fleet.workers().map(function observe(worker) {
      const view = workerView(worker, now);
      return {
        name: view.name,
        role: view.role,
        pool: view.pool,
        inFlight: view.requestsInFlight,
        queuedTokens: view.queuedTokens,
        healthy: view.healthy,
        breaker: view.breaker,
        draining: view.draining,
      };
    }),
    queueLength: admission.queued,
  };
}
