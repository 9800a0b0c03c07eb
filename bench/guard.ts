/**
 * Has a figure moved? Compares a short run with the last committed baseline: npm run bench:guard -- [--tolerance 0.25] [--rounds 3] [--scenarios S1,S2,S4].
 * Compared are ratios to the floor of the same run, since absolute figures are the machine's. No part of the tests. Exit code 1 when a figure is worse.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FIGURES } from "./side-by-side/figures.ts";
import { type Baseline, type Medians, mediansOf, type RunResults } from "./side-by-side/results.ts";

const ROOT = join(import.meta.dir, "..");
const BASELINE = "bench/baseline.json";
/** Floors in the order of preference: what moves bytes and nothing else, and a split that does nothing else. */
const FLOORS = ["nginx", "haproxy", "naive-split"];

interface Change {
  figure: string;
  router: string;
  before: number;
  now: number;
}

function committedBaseline(): Baseline | undefined {
  const shown = Bun.spawnSync(["git", "show", `HEAD:${BASELINE}`], { cwd: ROOT, stderr: "ignore" });
  return shown.exitCode === 0 ? (JSON.parse(shown.stdout.toString()) as Baseline) : undefined;
}

/** The run writes its results to a file; its table is shown as it comes. */
async function runNow(rounds: string, scenarios: string): Promise<RunResults> {
  const results = join(ROOT, "bench", "results");
  mkdirSync(results, { recursive: true });
  const folder = mkdtempSync(join(results, "guard-"));
  const command = [
    process.execPath,
    join(import.meta.dir, "side-by-side", "main.ts"),
    ...[
      "--only",
      `direct,${FLOORS.join()},ours,ours-vllm`,
      "--rounds",
      rounds,
      "--scenarios",
      scenarios,
      "--results",
      folder,
    ],
  ];
  try {
    const run = Bun.spawn(command, { stdout: "inherit", stderr: "inherit" });
    await run.exited;
    const file = readdirSync(folder).find((name) => name.endsWith(".json"));
    if (file === undefined) throw new Error("The run gave no results");
    return JSON.parse(readFileSync(join(folder, file), "utf8")) as RunResults;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Figures both runs have, each as a multiple of the same floor. */
function compare(before: Medians, now: Medians): Change[] {
  const changes: Change[] = [];
  for (const { name, absolute } of FIGURES) {
    if (absolute === true) continue;
    const old = before[name] ?? {};
    const fresh = now[name] ?? {};
    const floor = FLOORS.find((each) => (old[each] ?? 0) > 0 && (fresh[each] ?? 0) > 0);
    if (floor === undefined) continue;
    for (const router of ["ours", "ours-vllm"]) {
      const [a, b] = [old[router], fresh[router]];
      if (a === undefined || b === undefined) continue;
      changes.push({
        figure: `${name} as a multiple of ${floor}`,
        router,
        before: a / (old[floor] as number),
        now: b / (fresh[floor] as number),
      });
    }
  }
  return changes;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    args: process.argv.slice(2),
    options: {
      tolerance: { type: "string", default: "0.25" },
      rounds: { type: "string", default: "3" },
      scenarios: { type: "string", default: "S0,S1,S2,S3,S4,big,fleet" },
    },
  });
  const baseline = committedBaseline();
  if (baseline === undefined) {
    console.error(`There is no committed ${BASELINE}: npm run bench -- --save-baseline, and commit it`);
    return 2;
  }
  const tolerance = Number(values.tolerance);
  const now = await runNow(values.rounds, values.scenarios);
  const changes = compare(baseline.medians, mediansOf(now.measurements));
  console.log(
    `\nSet beside the baseline of ${baseline.date.slice(0, 10)}, commit ${baseline.commit} (${baseline.cpu})`,
  );
  let worse = 0;
  for (const { figure, router, before, now: fresh } of changes) {
    const moved = fresh / before - 1;
    const verdict = moved > tolerance ? "WORSE" : moved < -tolerance ? "better" : "as before";
    if (verdict === "WORSE") worse++;
    const sign = moved < 0 ? "−" : "+";
    console.log(
      `${verdict.padEnd(9)} ${router.padEnd(10)} ${figure}: ${before.toFixed(2)} → ${fresh.toFixed(2)} (${sign}${Math.abs(100 * moved).toFixed(0)} %)`,
    );
  }
  if (changes.length === 0) {
    console.error("Nothing could be compared: the baseline and this run have no floor in common");
    return 2;
  }
  console.log(
    worse === 0
      ? "No figure is worse"
      : `${worse} of ${changes.length} figures are worse; less than 20 % may be noise, so run it again`,
  );
  return worse === 0 ? 0 : 1;
}

process.exit(await main());
