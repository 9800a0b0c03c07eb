import type { WorkerInfo } from "../fleet/worker-info.ts";
import type { FleetChanges } from "../telemetry/changes.ts";
import type { Fleet } from "../workers/fleet.ts";
import { snapshot, type WorkerView } from "../workers/snapshot.ts";
import type { ModelCard, WorkerCard } from "./update.ts";

/**
 * The fleet as the dashboard shows it: names, never addresses, unless `infos` is given, which is for those with the admin key. What
 * changes with every look (the age of a probe) is left out, so that what is sent again is news.
 */
export function modelCards(
  fleet: Fleet,
  now: number,
  changes: FleetChanges,
  infos: readonly WorkerInfo[] | undefined,
): ModelCard[] {
  const infoOf = new Map(infos?.map((info) => [info.name, info]));
  return snapshot(fleet, now).models.map(({ id, aliases, ready, reason, pools }) => ({
    id,
    aliases,
    ready,
    reason,
    pools: pools.map(({ name, engine, region, serving, policies, workers }) => ({
      name,
      engine,
      region,
      serving,
      policies: { prefill: policies.prefill, decode: policies.decode },
      workers: workers.map((worker) => workerCard(worker, sickSince(fleet, worker, changes), infoOf.get(worker.name))),
    })),
  }));
}

/** Undefined: it is well. */
function sickSince(fleet: Fleet, { name, healthy, breaker }: WorkerView, changes: FleetChanges): number | undefined {
  const worker = fleet.worker(name);
  if (worker === undefined || (healthy && breaker === "closed")) return undefined;
  return healthy ? changes.breakerSince(worker) : changes.healthSince(worker);
}

function workerCard(view: WorkerView, sickSince: number | undefined, info: WorkerInfo | undefined): WorkerCard {
  const { name, role, usable, healthy, breaker, draining, weight } = view;
  return {
    name,
    role,
    usable,
    healthy,
    breaker,
    draining,
    requests: view.requestsInFlight,
    tokens: view.queuedTokens,
    weight,
    avoidedS: Math.ceil(view.avoidedForMs / 1000),
    sickSince,
    url: info?.url,
    problems: info?.problems,
  };
}
