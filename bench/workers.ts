/**
 * The router as a Worker: bundle, start-up, CPU per request and per streamed token on workerd, beside a Worker that only hands an answer on.
 * Run: npm run bench:workers -- [--rounds 3] [--quick]
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundleWorker } from "../test/runtimes/process.ts";
import { bareWorker, EMPTY_WORKER } from "./runtimes/bare-worker.ts";
import { ANSWER_TOKENS, type Cost, costOf, medianCost } from "./runtimes/cost.ts";
import { workerdCommand } from "./runtimes/start.ts";
import { median } from "./side-by-side/results.ts";
import { EngineFleet } from "./stand/engines.ts";
import { cpuSeconds, unfit } from "./stand/machine.ts";
import { RouterProcess } from "./stand/router-process.ts";
import { GROUPS, ROUTER_PORT } from "./stand/sides.ts";

const LOG = join(import.meta.dir, "results", "logs", "workers.log");
const DURATION_MS = { full: 4_000, quick: 1_000 };
const STARTS = { full: 7, quick: 3 };

interface Start {
  ms: number;
  cpuMs: number;
}

/** From the process's start to its first answer; one answer of the router includes both of its legs. */
async function startOf(script: string): Promise<Start> {
  const router = await RouterProcess.start(await workerdCommand(script), ROUTER_PORT, LOG);
  try {
    return { ms: router.startMs, cpuMs: cpuSeconds(router.pids()) * 1000 };
  } finally {
    await router.stop();
  }
}

async function starts(scripts: readonly string[], rounds: number): Promise<Start[]> {
  const all: Start[][] = scripts.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, script] of scripts.entries()) all[index]?.push(await startOf(script));
  }
  return all.map((some) => ({ ms: median(some.map(({ ms }) => ms)), cpuMs: median(some.map(({ cpuMs }) => cpuMs)) }));
}

function printBundle(plain: string, minified: string): void {
  const kb = (bytes: number) => `${(bytes / 1024).toFixed(0)} KB`;
  const gzip = Bun.gzipSync(Buffer.from(minified)).byteLength;
  console.log(
    `bundle: ${kb(Buffer.byteLength(plain))}, minified ${kb(Buffer.byteLength(minified))}, minified and compressed ${kb(gzip)}`,
  );
}

function printCosts(router: Cost, bare: Cost): void {
  const row = (name: string, read: (cost: Cost) => number, digits = 0) =>
    console.log(`| ${name} | ${read(router).toFixed(digits)} | ${read(bare).toFixed(digits)} |`);
  console.log("\n| µs CPU on workerd | the router | a Worker that hands one answer on |\n| --- | --: | --: |");
  row("short buffered request", ({ requestUs }) => requestUs);
  row("streamed token at full speed", ({ answerUs }) => answerUs / ANSWER_TOKENS, 1);
  row("streamed token, one every 5 ms", ({ slowAnswerUs }) => slowAnswerUs / ANSWER_TOKENS, 1);
  row("first token added (not CPU)", ({ firstUs, directUs }) => firstUs - directUs);
  console.log(
    `\nAn answer of ${ANSWER_TOKENS} tokens costs ${(router.answerUs / 1000).toFixed(1)} ms of CPU when they come at once, ${(router.slowAnswerUs / 1000).toFixed(1)} ms when each comes by itself (${(bare.answerUs / 1000).toFixed(1)} and ${(bare.slowAnswerUs / 1000).toFixed(1)} ms without a router).`,
  );
  console.log("CPU is that of the whole workerd process, sockets and HTTP included.");
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    args: process.argv.slice(2),
    options: { rounds: { type: "string" }, quick: { type: "boolean", default: false } },
  });
  const why = unfit();
  if (why !== undefined) {
    console.error(why);
    return 2;
  }
  mkdirSync(join(import.meta.dir, "results", "logs"), { recursive: true });
  const size = values.quick ? "quick" : "full";
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  const script = await bundleWorker("src/runtime/workers-entry.ts", true);
  printBundle(await bundleWorker(), script);
  const fleet = await EngineFleet.start([...GROUPS.whole, ...GROUPS.sglang]);
  const router: Cost[] = [];
  const bare: Cost[] = [];
  try {
    const [mine, empty] = await starts([script, EMPTY_WORKER], STARTS[size]);
    if (mine === undefined || empty === undefined) throw new Error("Nothing was started");
    console.log(
      `start to the first answer: ${mine.ms.toFixed(0)} ms (${mine.cpuMs.toFixed(0)} ms CPU), an empty Worker ${empty.ms.toFixed(0)} ms (${empty.cpuMs.toFixed(0)} ms CPU)`,
    );
    for (let round = 0; round < rounds; round++) {
      router.push(await costOf(await workerdCommand(script), fleet, DURATION_MS[size], LOG));
      bare.push(await costOf(await workerdCommand(bareWorker()), fleet, DURATION_MS[size], LOG));
    }
  } finally {
    await fleet.stop();
  }
  printCosts(medianCost(router), medianCost(bare));
  const errors = [...router, ...bare].reduce((sum, cost) => sum + cost.errors, 0);
  if (errors > 0) console.log(`${errors} errors`);
  return errors > 0 ? 1 : 0;
}

process.exit(await main());
