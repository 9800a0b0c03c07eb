import type { FleetChange } from "../../telemetry/changes.ts";
import type { MinuteCounts, ModelCard, RequestRow, RouterFacts, Update } from "../update.ts";

const KEPT = 400;
const KEPT_FAILED = 64;

/** All that the page knows; what the stream tells is put in here, and everything that is shown is made from it. */
export interface State {
  router: RouterFacts | undefined;
  /** The router's clock minus the viewer's, so that "3 min ago" is right on a laptop whose clock is not. */
  clockOffset: number;
  /** When the last event came, by the viewer's clock; 0 = none yet. */
  heardAt: number;
  inProgress: number;
  queued: number;
  shuttingDown: boolean;
  models: ModelCard[];
  minutes: MinuteCounts | undefined;
  changes: readonly FleetChange[];
  /** By key; a running one has no `finished`. */
  requests: Map<number, RequestRow>;
}

export function emptyState(): State {
  return {
    router: undefined,
    clockOffset: 0,
    heardAt: 0,
    inProgress: 0,
    queued: 0,
    shuttingDown: false,
    models: [],
    minutes: undefined,
    changes: [],
    requests: new Map(),
  };
}

/** Puts an event into the state. `heardAt`: now, by the viewer's clock. */
export function take(state: State, update: Update, heardAt: number): void {
  // The first event of a connection tells everything; after a restart of the router keys begin anew.
  if (update.router !== undefined) {
    state.router = update.router;
    state.requests.clear();
  }
  state.clockOffset = update.now - heardAt;
  state.heardAt = heardAt;
  state.inProgress = update.inProgress;
  state.queued = update.queued;
  state.shuttingDown = update.shuttingDown;
  if (update.models !== undefined) state.models = update.models;
  if (update.minutes !== undefined) state.minutes = update.minutes;
  if (update.changes !== undefined) state.changes = update.changes;
  for (const row of update.requests ?? []) state.requests.set(row.key, row);
  const running = new Set(update.running);
  for (const row of state.requests.values()) {
    if (row.finished === undefined && !running.has(row.key)) state.requests.delete(row.key);
  }
  forget(state);
}

/** Newest first: those that run, then the finished ones by their start. */
export function newestFirst(state: State): RequestRow[] {
  return [...state.requests.values()].sort((a, b) => b.at - a.at || b.key - a.key);
}

/** The latest failed ones stay longer than the others, as in the router. */
function forget(state: State): void {
  if (state.requests.size <= KEPT) return;
  let kept = 0;
  let failed = 0;
  for (const row of newestFirst(state)) {
    if (row.finished === undefined) continue;
    kept += 1;
    if (kept <= KEPT - KEPT_FAILED) continue;
    if (row.failed !== undefined) failed += 1;
    if (row.failed === undefined || failed > KEPT_FAILED) state.requests.delete(row.key);
  }
}
