/**
 * Does a request cost the same before 1,000 workers as before 8, and after many requests as at the start?
 * Run: npm run bench:scale -- [--requests 200000] [--workers 8,64,200,1000] [--rounds 3] [--quick]. Exit code 1 when it does not.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Held } from "./scale/heap.ts";
import { ScaleStand } from "./scale/stand.ts";
import { median } from "./side-by-side/results.ts";
import { memoryMb, openFiles, unfit } from "./stand/machine.ts";

const LOG = join(import.meta.dir, "results", "logs", "scale.log");
const WARM_REQUESTS = 6_000;
/** Enough for every worker to be asked many times, so that connections to new ones are no part of the figure. */
const REQUESTS_PER_WORKER = 12;
const MEASURED_REQUESTS = 12_000;
const BLOCKS = 10;
/** Connections to engines that were open a moment ago are closed by then. */
const CALM_MS = 1_000;

/** More workers than this factor allows, and the cost is not flat. */
const FLAT = 1.5;
/** From the second block on, when code is compiled and bounded caches are full or nearly so. */
const GROWTH = { heap: 1.2, heapMb: 4, objects: 1.2, plusObjects: 4_000, maps: 200, files: 80, rssMb: 40, rss: 1.25 };

interface Level extends Held {
  requests: number;
  rssMb: number;
  files: number;
  cpuUs: number;
}

async function costBefore(workers: number, requests: number): Promise<number> {
  const stand = await ScaleStand.open(workers, LOG);
  try {
    await stand.load({ requests: Math.max(WARM_REQUESTS, workers * REQUESTS_PER_WORKER), durationMs: 60_000 });
    const { cpuUs, errors } = await stand.load({ requests, durationMs: 60_000 });
    if (errors > 0) throw new Error(`${errors} errors before ${workers} workers`);
    return cpuUs;
  } finally {
    await stand.close();
  }
}

async function flatInWorkers(sizes: readonly number[], rounds: number, requests: number): Promise<boolean> {
  console.log("CPU of the router per short buffered request, µs, prefix-aware prefill and least-loaded decode\n");
  const costs = new Map<number, number[]>(sizes.map((size) => [size, []]));
  for (let round = 0; round < rounds; round++) {
    for (const size of sizes) costs.get(size)?.push(await costBefore(size, requests));
  }
  const medians = sizes.map((size) => median(costs.get(size) ?? []));
  for (const [index, size] of sizes.entries()) {
    const cost = medians[index] ?? 0;
    console.log(
      `${String(size).padStart(6)} workers ${cost.toFixed(0).padStart(6)}  ${(cost / (medians[0] ?? 1)).toFixed(2)} ×`,
    );
  }
  const worst = Math.max(...medians) / (medians[0] ?? 1);
  console.log(worst <= FLAT ? "flat\n" : `NOT flat: ${worst.toFixed(2)} × of the smallest fleet\n`);
  return worst <= FLAT;
}

async function readLevel(stand: ScaleStand, requests: number, cpuUs: number): Promise<Level> {
  await Bun.sleep(CALM_MS);
  const held = await stand.held();
  const pids = stand.router.pids();
  return { ...held, requests, cpuUs, rssMb: memoryMb(pids, "VmRSS"), files: openFiles(pids) };
}

/** Half of the requests are streams, each prompt is new, as the prefix index sees it in practice. */
async function flatInUptime(requests: number): Promise<boolean> {
  console.log(`${requests.toLocaleString("en")} requests through one process, half of them streams\n`);
  const stand = await ScaleStand.open(8, LOG);
  const levels: Level[] = [];
  try {
    const half = Math.ceil(requests / BLOCKS / 2);
    for (let block = 1; block <= BLOCKS; block++) {
      const whole = await stand.load({ requests: half, durationMs: 600_000 });
      const streams = await stand.load({ requests: half, durationMs: 600_000, stream: true });
      const errors = whole.errors + streams.errors;
      if (errors > 0) throw new Error(`${errors} errors in block ${block}`);
      const level = await readLevel(stand, block * half * 2, (whole.cpuUs + streams.cpuUs) / 2);
      levels.push(level);
      console.log(
        `${String(level.requests).padStart(9)} requests  ${level.cpuUs.toFixed(0).padStart(4)} µs  heap ${level.heapMb.toFixed(1)} MB  ${level.objects} objects  ${level.maps} maps and sets  ${level.files} open files  RSS ${level.rssMb.toFixed(0)} MB`,
      );
    }
  } finally {
    await stand.close();
  }
  const grown = growth(levels[1] as Level, levels.at(-1) as Level);
  console.log(grown.length === 0 ? "no growth" : `GROWN: ${grown.join(", ")}`);
  return grown.length === 0;
}

function growth(base: Level, end: Level): string[] {
  const checks: [string, number, number][] = [
    ["heap MB", end.heapMb, base.heapMb * GROWTH.heap + GROWTH.heapMb],
    ["objects", end.objects, base.objects * GROWTH.objects + GROWTH.plusObjects],
    ["maps and sets", end.maps, base.maps + GROWTH.maps],
    ["open files", end.files, base.files + GROWTH.files],
    ["RSS MB", end.rssMb, base.rssMb * GROWTH.rss + GROWTH.rssMb],
    ["µs per request", end.cpuUs, base.cpuUs * FLAT],
  ];
  return checks
    .filter(([, value, allowed]) => value > allowed)
    .map(([what, value, allowed]) => `${what} ${value.toFixed(1)}, allowed ${allowed.toFixed(1)}`);
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    args: process.argv.slice(2),
    options: {
      requests: { type: "string" },
      workers: { type: "string" },
      rounds: { type: "string" },
      quick: { type: "boolean", default: false },
    },
  });
  const why = unfit();
  if (why !== undefined) {
    console.error(why);
    return 2;
  }
  mkdirSync(join(import.meta.dir, "results", "logs"), { recursive: true });
  const sizes = (values.workers ?? (values.quick ? "8,1000" : "8,64,200,1000")).split(",").map(Number);
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  const requests = Number(values.requests ?? (values.quick ? 20_000 : 200_000));
  const flat = await flatInWorkers(sizes, rounds, values.quick ? MEASURED_REQUESTS / 3 : MEASURED_REQUESTS);
  const steady = await flatInUptime(requests);
  return flat && steady ? 0 : 1;
}

process.exit(await main());
