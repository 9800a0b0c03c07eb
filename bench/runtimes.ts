/**
 * What the router costs on each runtime, in one run: npm run bench:runtimes -- [--only bun,node,deno,workerd] [--rounds 3] [--quick].
 * The same code, the same configuration, the same engines.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundleWorker } from "../test/runtimes/process.ts";
import { type Cost, costOf, medianCost } from "./runtimes/cost.ts";
import { RUNTIMES, type Runtime, runtimeCommand } from "./runtimes/start.ts";
import { EngineFleet } from "./stand/engines.ts";
import { unfit } from "./stand/machine.ts";
import { GROUPS } from "./stand/sides.ts";

const LOGS = join(import.meta.dir, "results", "logs");
const DURATION_MS = { full: 4_000, quick: 1_000 };

function print(costs: Map<Runtime, Cost[]>): void {
  const base = medianCost(costs.get("bun") ?? []).requestUs;
  console.log(
    "\n| | first token added, µs | request, µs CPU | of Bun | 500-token answer, µs CPU | per token | at 5 ms a token | memory, MB |",
  );
  console.log("| --- | --: | --: | --: | --: | --: | --: | --: |");
  for (const [runtime, all] of costs) {
    if (all.length === 0) continue;
    const { firstUs, directUs, requestUs, answerUs, slowAnswerUs, idleMb, errors } = medianCost(all);
    const cells = [
      runtime,
      (firstUs - directUs).toFixed(0),
      requestUs.toFixed(0),
      base > 0 ? `${(requestUs / base).toFixed(2)} ×` : "–",
      answerUs.toFixed(0),
      (answerUs / 500).toFixed(1),
      (slowAnswerUs / 500).toFixed(1),
      idleMb.toFixed(0),
    ];
    console.log(`| ${cells.join(" | ")} |${errors > 0 ? ` ${errors} errors` : ""}`);
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    args: process.argv.slice(2),
    options: { only: { type: "string" }, rounds: { type: "string" }, quick: { type: "boolean", default: false } },
  });
  const why = unfit();
  if (why !== undefined) {
    console.error(why);
    return 2;
  }
  mkdirSync(LOGS, { recursive: true });
  const chosen = RUNTIMES.filter((runtime) => values.only?.split(",").includes(runtime) ?? true);
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  const script = await bundleWorker();
  const fleet = await EngineFleet.start([...GROUPS.whole, ...GROUPS.sglang]);
  const costs = new Map<Runtime, Cost[]>(chosen.map((runtime) => [runtime, []]));
  try {
    for (let round = 0; round < rounds; round++) {
      for (const runtime of chosen) {
        const command = await runtimeCommand(runtime, script);
        const cost = await costOf(
          command,
          fleet,
          values.quick ? DURATION_MS.quick : DURATION_MS.full,
          join(LOGS, `${runtime}.log`),
        );
        costs.get(runtime)?.push(cost);
        console.log(
          `${round + 1} ${runtime.padEnd(8)} ${JSON.stringify(cost, (_, value) => (typeof value === "number" ? Math.round(value) : value))}`,
        );
      }
    }
  } finally {
    await fleet.stop();
  }
  print(costs);
  return [...costs.values()].flat().some(({ errors }) => errors > 0) ? 1 : 0;
}

process.exit(await main());
