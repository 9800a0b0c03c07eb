import type { EngineFleet } from "../stand/engines.ts";
import { PLAIN_LOAD, runLoad } from "../stand/load.ts";
import { calibrationMs, cpuSeconds, fileLimit, machineBusySeconds, memoryMb, resetPeak } from "../stand/machine.ts";
import { type LoadPlan, type LoadResult, type Moment, type Quantiles, quantilesOf } from "../stand/protocol.ts";
import type { RouterProcess } from "../stand/router-process.ts";
import { GROUPS, ROUTER_PORT } from "../stand/sides.ts";
import { type Entrant, sideOf } from "./entrants.ts";
import { DURATION_MS, IDLE_STREAMS, type Scenario } from "./scenarios.ts";

/** Files a router needs besides two connections a stream. */
const SPARE_FILES = 600;
/** A closing that came within this long counts; what comes later is a deadline of somebody else's. */
const CLOSE_MS = 5_000;
/** How long after the load closings are waited for. */
const SETTLE_MS = 500;

export interface Measurement {
  round: number;
  router: string;
  kind: Entrant["kind"];
  scenario: string;
  load: Omit<LoadResult, "frames" | "statuses" | "hangUps">;
  routerCpuSeconds: number;
  engineCpuSeconds: number;
  /** CPU that neither router, engines nor load spent: other work on a shared machine. */
  otherCpuSeconds: number;
  calibrationMs: number;
  idleMb: number;
  peakMb: number;
  alive: boolean;
  /** Requests that reached an engine without what its role needs. */
  rejected: number;
  /** From prefill's (first) failing bytes to the client's error frame or error status. */
  lateMs?: Delays & { byStatus: number };
  /** From the client's hang-up to the last upstream close. */
  closeMs?: Delays;
}

/** `never`: not within five seconds. */
export type Delays = Quantiles & { never: number };

/** Streams that fit: a router has two connections for each, and a limit of open files that it may not be able to raise. */
export function idleStreams(quick: boolean): number {
  return Math.min(quick ? 1_000 : IDLE_STREAMS, Math.floor((fileLimit() - SPARE_FILES) / 2));
}

export interface Stage {
  entrant: Entrant;
  router: RouterProcess | undefined;
  fleet: EngineFleet;
  quick: boolean;
}

/** One scenario against one router that is running. */
export async function measure(stage: Stage, scenario: Scenario, round: number): Promise<Measurement> {
  const { entrant, router, fleet, quick } = stage;
  await fleet.shape(scenario.shape);
  await fleet.journal();
  const plan = planFor(stage, scenario);
  const calibration = calibrationMs();
  const before = router?.pids() ?? [];
  resetPeak(before);
  const cpu = cpuSeconds(before);
  const engineCpu = cpuSeconds([fleet.pid]);
  const own = process.cpuUsage();
  const busy = machineBusySeconds();
  const expected = scenario.idle === true ? idleStreams(quick) : 0;
  let asked = false;
  const { frames, statuses, hangUps, ...load } = await runLoad(plan, async ({ open, errors }) => {
    if (expected === 0 || asked || open + errors < expected) return;
    asked = true;
    await fleet.finish();
  });
  const mine = process.cpuUsage(own);
  const after = router?.pids() ?? [];
  const routerCpuSeconds = cpuSeconds(after) - cpu;
  const engineCpuSeconds = cpuSeconds([fleet.pid]) - engineCpu;
  const spent = routerCpuSeconds + engineCpuSeconds + load.cpuSeconds + (mine.user + mine.system) / 1e6;
  const measurement: Measurement = {
    round,
    router: entrant.name,
    kind: entrant.kind,
    scenario: scenario.name,
    load,
    routerCpuSeconds,
    engineCpuSeconds,
    otherCpuSeconds: Math.max(0, machineBusySeconds() - busy - spent),
    calibrationMs: calibration,
    idleMb: router?.idleMb ?? 0,
    peakMb: memoryMb(after, "VmHWM"),
    alive: router?.alive ?? true,
    rejected: await rejectedBy(fleet, entrant, scenario),
  };
  if (plan.extra !== undefined && scenario.idle !== true) {
    await Bun.sleep(SETTLE_MS);
    const journal = await fleet.journal();
    if (plan.extra.kind === "f") {
      const told = [...frames, ...statuses];
      measurement.lateMs = { ...delays(journal.failed, [told]), byStatus: statuses.length };
    } else {
      // A leg that was never opened has nothing to close: under load a client may leave before its turn has come.
      const { prefillOpened, prefillClosed, decodeOpened, decodeClosed } = journal;
      const legs = [
        { opened: new Set(prefillOpened), closed: prefillClosed },
        { opened: new Set(decodeOpened), closed: decodeClosed },
      ];
      const all = hangUps.filter(([number]) => legs.some(({ opened }) => opened.has(number)));
      const effects = legs.map(({ opened, closed }) => [
        ...hangUps.filter(([number]) => !opened.has(number)),
        ...closed,
      ]);
      measurement.closeMs = delays(all, effects);
    }
  }
  return measurement;
}

function planFor({ entrant, router, quick }: Stage, scenario: Scenario): LoadPlan {
  const direct = GROUPS[sideOf(entrant, scenario.setup)][0]?.ports[0] ?? 0;
  const plan: LoadPlan = {
    ...PLAIN_LOAD,
    durationMs: quick ? DURATION_MS.quick : DURATION_MS.full,
    ...scenario.plan,
    port: router === undefined ? direct : ROUTER_PORT,
    ...(router?.headers === undefined ? {} : { headers: router.headers }),
    ...(scenario.scrapes === true && entrant.metrics !== undefined
      ? { scrape: { port: ROUTER_PORT, path: entrant.metrics } }
      : {}),
  };
  if (scenario.idle !== true) return plan;
  const streams = idleStreams(quick);
  return { ...plan, requests: streams, rampMs: streams, extra: { kind: "i", clients: streams } };
}

async function rejectedBy(fleet: EngineFleet, entrant: Entrant, scenario: Scenario): Promise<number> {
  let rejected = 0;
  for (const { name } of GROUPS[sideOf(entrant, scenario.setup)]) rejected += (await fleet.stats(name)).rejected;
  return rejected;
}

/** From each request's first cause to the last of its effects; one that lacks an effect, or has it too late, is counted apart. */
function delays(all: readonly Moment[], effects: readonly (readonly Moment[])[]): Delays {
  const maps = effects.map((each) => new Map(each));
  const causes = new Map([...all].reverse());
  const taken: number[] = [];
  let never = 0;
  for (const [number, at] of causes) {
    const last = Math.max(...maps.map((map) => map.get(number) ?? Number.POSITIVE_INFINITY));
    if (last - at > CLOSE_MS) never++;
    else taken.push(last - at);
  }
  return { ...quantilesOf(taken), never };
}
