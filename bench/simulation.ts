/**
 * Fifty routers in front of a thousand workers in twelve regions, over a day with two outages: how good is the choice of a region?
 * Run: npm run simulate:global (about two minutes). Deterministic: the same figures every time. Prints the table of docs/scale.md and
 * writes the plots beside it; `--quick` runs a minute of the day and writes nothing.
 */
import { join } from "node:path";
import type { Chooser } from "./simulation/chooser.ts";
import type { Figures } from "./simulation/figures.ts";
import { Limit } from "./simulation/limit.ts";
import { dayPlot, sharesPlot, table, ttftPlot } from "./simulation/report.ts";
import { type RegionPolicy, Routers } from "./simulation/routers.ts";
import { type Plan, simulate } from "./simulation/simulation.ts";
import { DAY_MS } from "./simulation/workload.ts";
import type { World } from "./simulation/world.ts";

const quick = process.argv.includes("--quick");

const plan: Plan = {
  seed: 20,
  sessionsPerSecond: 130,
  lengthMs: quick ? 60_000 : DAY_MS,
  outages: quick
    ? [{ region: "us-east", at: 20_000, ms: 15_000, share: 1 }]
    : [
        { region: "us-east", at: 120_000, ms: 60_000, share: 1 },
        { region: "eu-central", at: 330_000, ms: 45_000, share: 0.5 },
      ],
};

const POLICIES: readonly (RegionPolicy | "perfect knowledge")[] = [
  "router",
  "router without a store",
  "nearest",
  "random",
  "perfect knowledge",
];

function chooserOf(policy: (typeof POLICIES)[number]): (world: World) => Chooser {
  return (world) => (policy === "perfect knowledge" ? new Limit(world) : new Routers(policy, world));
}

const all: Figures[] = [];
for (const policy of POLICIES) {
  const since = performance.now();
  all.push(simulate(plan, chooserOf(policy)));
  console.error(`${policy}: ${((performance.now() - since) / 1_000).toFixed(1)} s`);
}
console.log(table(all.map(({ summary }) => summary!)));
if (!quick) {
  const docs = join(import.meta.dir, "..", "docs");
  await Bun.write(join(docs, "simulation-ttft.svg"), ttftPlot(all));
  await Bun.write(join(docs, "simulation-day.svg"), dayPlot(all, plan));
  await Bun.write(join(docs, "simulation-shares.svg"), sharesPlot(all[0]!, plan));
}
