import type { RequestRow } from "../update.ts";
import { count, percent, plural, span, timeOfDay } from "./format.ts";
import type { State } from "./state.ts";

export type Level = "good" | "warn" | "bad" | "unknown";

/** One thing that is wrong, or worth knowing. */
export interface Finding {
  level: Level;
  text: string;
  /** Since when, milliseconds since 1970 by the router's clock. */
  since?: number | undefined;
}

export interface Verdict {
  level: Level;
  title: string;
  findings: Finding[];
}

/** Without an event for so long the picture is old: the router sends two a second. */
const SILENT_MS = 4_000;
const LOOK_BACK_MINUTES = 5;
/** A quiet minute or two between failures is the same trouble. */
const GAP_MINUTES = 2;
const BAD_SHARE = 0.2;
const STANDS_OUT = 0.6;
const LEGS = ["router", "prefill", "hand-off", "decode", "late prefill"] as const;

/** The first thing to read at night: is it serving, which worker is sick, which leg fails, since when. `now`: the viewer's clock. */
export function verdictOf(state: State, now: number): Verdict {
  if (state.heardAt === 0) return { level: "unknown", title: "Connecting", findings: [] };
  if (now - state.heardAt > SILENT_MS) {
    const text = `No word from the router for ${span(now - state.heardAt)}. What is shown below is as old as that`;
    return { level: "unknown", title: "Connection lost", findings: [{ level: "bad", text }] };
  }
  const findings = [...down(state), ...sick(state), ...failing(state), ...load(state)];
  const unready = state.models.filter((model) => !model.ready);
  if (unready.length > 0) {
    const all = unready.length === state.models.length;
    return { level: "bad", title: all ? "Not serving" : "Serving in part", findings };
  }
  if (state.shuttingDown) return { level: "warn", title: "Shutting down", findings };
  const level = findings.some((finding) => finding.level === "bad")
    ? "bad"
    : findings.some((finding) => finding.level === "warn")
      ? "warn"
      : "good";
  if (level === "bad") return { level, title: "Serving, but failing", findings };
  if (level === "warn") return { level, title: "Serving, with trouble", findings };
  return { level, title: "Serving", findings: [...findings, { level, text: allWell(state) }] };
}

function down(state: State): Finding[] {
  return state.models
    .filter((model) => !model.ready)
    .map((model) => ({ level: "bad", text: `${model.id} cannot be served: ${model.reason ?? "no usable workers"}` }));
}

function sick(state: State): Finding[] {
  const out: Finding[] = [];
  for (const worker of workersOf(state)) {
    const { name, healthy, breaker, draining, requests, sickSince: since } = worker;
    if (!healthy) out.push({ level: "warn", text: `${name} fails its health checks`, since });
    else if (breaker === "open")
      out.push({ level: "warn", text: `${name} is left alone after failures in a row`, since });
    else if (breaker === "half-open")
      out.push({ level: "warn", text: `${name} is being tried again after failures`, since });
    if (draining) out.push({ level: "good", text: `${name} is draining, ${plural(requests, "request")} left` });
    for (const problem of worker.problems ?? []) out.push({ level: "warn", text: `${name}: ${problem}` });
  }
  return out;
}

function failing(state: State): Finding[] {
  const { minutes } = state;
  if (minutes === undefined) return [];
  const recent = minutes.counts.slice(-LOOK_BACK_MINUTES);
  const total = sum(recent.map((minute) => minute[0]!));
  const byLeg = LEGS.map((_, leg) => sum(recent.map((minute) => minute[leg + 1]!)));
  const failed = sum(byLeg);
  if (failed === 0) return [];
  const share = failed / Math.max(total, failed);
  const legs = LEGS.flatMap((leg, i) =>
    byLeg[i]! > 0 ? [byLeg[i] === failed ? `in ${leg}` : `${leg} ${byLeg[i]}`] : [],
  );
  const text = `${count(failed)} of ${plural(Math.max(total, failed), "request")} failed in ${LOOK_BACK_MINUTES} min (${percent(share)}): ${legs.join(", ")}${worstWorker(state)}`;
  return [{ level: share >= BAD_SHARE ? "bad" : "warn", text, since: failingSince(state) }];
}

/** The worker that most of the latest failures name, if one stands out. */
function worstWorker(state: State): string {
  const from = (state.minutes?.from ?? 0) + (60 - LOOK_BACK_MINUTES) * 60_000;
  const names = new Map<string, number>();
  let all = 0;
  for (const row of state.requests.values()) {
    if (row.failed === undefined || row.at < from) continue;
    all += 1;
    const name = faultyWorker(row);
    if (name !== "") names.set(name, (names.get(name) ?? 0) + 1);
  }
  const [worst] = [...names].sort((a, b) => b[1] - a[1]);
  if (worst === undefined || worst[1] < all * STANDS_OUT) return "";
  return worst[1] === all ? `, all on ${worst[0]}` : `, most on ${worst[0]}`;
}

/** The worker whose leg failed; "" when it was none's. */
export function faultyWorker(row: RequestRow): string {
  if (row.failed === "prefill" || row.failed === "handoff" || row.failed === "late") return row.prefill;
  return row.failed === "decode" ? row.decode : "";
}

/** Start of the minute in which the present trouble began, or of the first failure in it that is still known. */
function failingSince(state: State): number | undefined {
  const { minutes } = state;
  if (minutes === undefined) return undefined;
  let first: number | undefined;
  let quiet = 0;
  for (
    let i = minutes.counts.length - 1;
    i >= 0 && quiet <= Math.max(GAP_MINUTES, first === undefined ? LOOK_BACK_MINUTES : 0);
    i--
  ) {
    if (sum(minutes.counts[i]!.slice(1)) > 0) {
      first = i;
      quiet = 0;
    } else quiet += 1;
  }
  if (first === undefined) return undefined;
  const start = minutes.from + first * 60_000;
  const known = [...state.requests.values()].filter((row) => row.failed !== undefined && row.at >= start);
  const earliest = Math.min(...known.map((row) => row.at));
  return earliest < start + 60_000 ? earliest : start;
}

function load(state: State): Finding[] {
  if (state.queued === 0) return [];
  return [
    { level: "warn", text: `${plural(state.queued, "request")} ${state.queued === 1 ? "waits" : "wait"} for a place` },
  ];
}

function allWell(state: State): string {
  const workers = workersOf(state);
  const usable = workers.filter((worker) => worker.usable).length;
  const hour = state.minutes?.counts ?? [];
  const failed = sum(hour.map((minute) => sum(minute.slice(1))));
  const past =
    failed === 0
      ? "nothing has failed in the last hour"
      : `${plural(failed, "failure")} in the last hour, none in ${LOOK_BACK_MINUTES} min`;
  return `${usable} of ${plural(workers.length, "worker")} usable, ${past}`;
}

export function workersOf(state: State) {
  return state.models.flatMap((model) => model.pools.flatMap((pool) => pool.workers));
}

/** "since 04:09:12 (13 min)", by the router's clock. */
export function sinceText(since: number | undefined, routerNow: number): string {
  return since === undefined ? "" : ` since ${timeOfDay(since)} (${span(routerNow - since)})`;
}

function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
