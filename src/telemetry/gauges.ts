import type { BreakerState, FleetSnapshot, FleetWorker } from "./fleet.ts";
import { METRIC } from "./names.ts";
import { Gauge, type Registry } from "./registry.ts";

export interface GaugeSources {
  version: string;
  startedAt: number;
  inProgress: () => number;
  drainsOpen: () => number;
  /** Whether the last exchange with the shared store went well; undefined: there has been none. */
  storeReached: () => boolean | undefined;
  spans: () => { exported: number; dropped: number };
  /** One snapshot per scrape, so that all gauges of a page tell of the same moment. */
  fleet: () => FleetSnapshot;
}

const BREAKER_VALUE: Record<BreakerState, number> = { closed: 0, "half-open": 1, open: 2 };

/** Registers everything that is read at the moment of a scrape. */
export function registerGauges(registry: Registry, sources: GaugeSources): void {
  const single = (name: string, help: string, read: () => number, kind?: "counter"): void => {
    registry.add(new Gauge(name, help, (emit) => emit(read()), kind));
  };
  const perWorker = (name: string, help: string, read: (worker: FleetWorker) => number): void => {
    registry.add(
      new Gauge(name, help, (emit) => {
        for (const worker of sources.fleet().workers) emit(read(worker), labelsOfWorker(worker));
      }),
    );
  };
  single(METRIC.requestsInProgress, "Requests that have begun and not ended.", sources.inProgress);
  single(METRIC.queueLength, "Requests waiting for a place.", () => sources.fleet().queueLength);
  single(METRIC.drainsOpen, "Prefill tails being read in the background.", sources.drainsOpen);
  registry.add(
    new Gauge(METRIC.storeReached, "1 = the last exchange with the shared store went well.", (emit) => {
      const reached = sources.storeReached();
      if (reached !== undefined) emit(reached ? 1 : 0);
    }),
  );
  perWorker(METRIC.workerInFlight, "Legs a worker is serving.", (worker) => worker.inFlight);
  perWorker(METRIC.workerQueuedTokens, "Estimated prompt tokens of those legs.", (worker) => worker.queuedTokens);
  perWorker(METRIC.workerHealthy, "1 = its probes succeed.", (worker) => (worker.healthy ? 1 : 0));
  perWorker(
    METRIC.workerBreakerState,
    "Circuit breaker: 0 = closed, 1 = half-open, 2 = open.",
    (worker) => BREAKER_VALUE[worker.breaker],
  );
  perWorker(METRIC.workerDraining, "1 = gets no new requests.", (worker) => (worker.draining ? 1 : 0));
  single(METRIC.spansExported, "Spans the collector took.", () => sources.spans().exported, "counter");
  single(METRIC.spansDropped, "Spans lost: queue full or collector failed.", () => sources.spans().dropped, "counter");
  single(METRIC.startTime, "When the router started, seconds since 1970.", () => sources.startedAt / 1000);
  registry.add(new Gauge(METRIC.buildInfo, "Always 1.", (emit) => emit(1, [["version", sources.version]])));
}

function labelsOfWorker(worker: FleetWorker): [string, string][] {
  return [
    ["worker", worker.name],
    ["role", worker.role],
    ["pool", worker.pool],
  ];
}
