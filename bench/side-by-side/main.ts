/**
 * Routers side by side, interleaved over rounds: npm run bench -- --help. Raw results go to bench/results/, which git ignores.
 * The method is in docs/performance.md.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { EngineFleet } from "../stand/engines.ts";
import { PLAIN_LOAD, runLoad } from "../stand/load.ts";
import { fileLimit, unfit } from "../stand/machine.ts";
import { RouterProcess } from "../stand/router-process.ts";
import { GROUPS, ROUTER_PORT } from "../stand/sides.ts";
import { drawChart } from "./chart.ts";
import { type Present, present } from "./entrants.ts";
import { idleStreams, type Measurement, measure, type Stage } from "./measure.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { baselineOf, type RunResults } from "./results.ts";
import { type Scenario, SETUPS, type Setup } from "./scenarios.ts";
import { figureTable, notes, ratioTable } from "./table.ts";

const ROOT = join(import.meta.dir, "..", "..");
const WARM_REQUESTS = 6_000;
const WARM_MS = 6_000;
const PAUSE_MS = 200;

class Bench {
  readonly #options: Options;
  readonly #fleet: EngineFleet;
  readonly #folder: string;
  readonly results: RunResults;

  constructor(options: Options, fleet: EngineFleet, folder: string, skipped: string[]) {
    this.#options = options;
    this.#fleet = fleet;
    this.#folder = folder;
    this.results = {
      date: new Date().toISOString(),
      commit: Bun.spawnSync(["git", "rev-parse", "--short", "HEAD"], { cwd: options.checkout ?? ROOT })
        .stdout.toString()
        .trim(),
      cpu: cpus()[0]?.model ?? "",
      cores: cpus().length,
      bun: Bun.version,
      rounds: options.rounds,
      quick: options.quick,
      fileLimit: fileLimit(),
      idleStreams: idleStreams(options.quick),
      skipped,
      measurements: [],
    };
  }

  async round(round: number, here: readonly Present[]): Promise<void> {
    for (const one of here) {
      for (const setup of SETUPS) {
        const scenarios = this.#options.scenarios.filter((scenario) => takesPart(one, scenario, setup));
        if (scenarios.length > 0) await this.#visit(one, setup, scenarios, round);
      }
    }
  }

  async #visit(one: Present, setup: Setup, scenarios: readonly Scenario[], round: number): Promise<void> {
    const { entrant, executable } = one;
    let router: RouterProcess | undefined;
    try {
      const command = entrant.command?.(executable, setup, {
        folder: this.#folder,
        checkout: this.#options.checkout ?? ROOT,
        streams: this.results.idleStreams,
      });
      const log = join(this.#options.results, "logs", `${entrant.name}.log`);
      if (command !== undefined) router = await RouterProcess.start(command, ROUTER_PORT, log);
      const stage: Stage = { entrant, router, fleet: this.#fleet, quick: this.#options.quick };
      if (router !== undefined) await this.#warm(router);
      for (const scenario of scenarios) {
        const measured = await measure(stage, scenario, round);
        this.results.measurements.push(measured);
        console.log(brief(measured));
        await Bun.sleep(PAUSE_MS);
      }
    } catch (error) {
      const sentence = `${entrant.name} (${setup}), round ${round + 1}: ${error instanceof Error ? error.message : error}`;
      this.results.skipped.push(sentence);
      console.log(sentence);
    } finally {
      await router?.stop();
    }
  }

  /** Code is compiled and connections are opened before anything counts; a count, since a time would warm the fast ones more. */
  async #warm(router: RouterProcess): Promise<void> {
    await this.#fleet.shape({ tokens: 16, itlMs: 0, chunkBytes: 5 });
    const headers = router.headers === undefined ? {} : { headers: router.headers };
    const plan = { ...PLAIN_LOAD, ...headers, port: ROUTER_PORT, durationMs: WARM_MS };
    await runLoad({ ...plan, requests: WARM_REQUESTS });
    await runLoad({ ...plan, requests: WARM_REQUESTS / 4, stream: true });
  }
}

function takesPart({ entrant }: Present, scenario: Scenario, setup: Setup): boolean {
  if (scenario.setup !== setup || !entrant.setups.includes(setup)) return false;
  if (scenario.splitOnly === true && entrant.engines === "whole") return false;
  return scenario.scrapes !== true || entrant.metrics !== undefined || entrant.kind === "floor";
}

function brief({
  round,
  router,
  scenario,
  load,
  routerCpuSeconds,
  otherCpuSeconds,
  peakMb,
  lateMs,
  closeMs,
}: Measurement): string {
  const per = load.events > 0 ? load.events : Math.max(1, load.requests);
  const cells = [
    `${round + 1} ${router.padEnd(14)} ${scenario.padEnd(9)}`,
    `${String(load.requests).padStart(7)} requests ${String(load.events).padStart(8)} events`,
    `${((1e6 * routerCpuSeconds) / per).toFixed(1).padStart(8)} µs CPU each`,
    `first ${(load.firstUs.p50 / 1000).toFixed(2)} ms`,
    `peak ${peakMb.toFixed(0)} MB`,
    `others ${((100 * otherCpuSeconds) / load.seconds).toFixed(0)} %`,
  ];
  const delay = lateMs ?? closeMs;
  if (delay)
    cells.push(`p50 ${delay.p50.toFixed(1)} p99 ${delay.p99.toFixed(1)} ms of ${delay.count}, never ${delay.never}`);
  if (load.errors > 0) cells.push(`${load.errors} errors`);
  return cells.join("  ");
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options === "help") {
    console.log(HELP);
    return 0;
  }
  const why = unfit();
  if (why !== undefined) {
    console.error(why);
    return 2;
  }
  mkdirSync(join(options.results, "logs"), { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-bench-"));
  const { here, skipped } = present(options.only);
  for (const sentence of skipped) console.log(sentence);
  const fleet = await EngineFleet.start(Object.values(GROUPS).flat());
  const bench = new Bench(options, fleet, folder, skipped);
  try {
    for (let round = 0; round < options.rounds; round++) await bench.round(round, here);
  } finally {
    await fleet.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  const { results } = bench;
  console.log(`\n${figureTable(results)}\n\n${ratioTable(results)}\n`);
  for (const note of notes(results)) console.log(note);
  const text = `${JSON.stringify(results, null, 1)}\n`;
  const file = join(options.results, `${results.date.replace(/[:.]/g, "-")}.json`);
  writeFileSync(file, text);
  if (options.saveBaseline) {
    writeFileSync(join(ROOT, "bench", "baseline.json"), `${JSON.stringify(baselineOf(results), null, 2)}\n`);
    writeFileSync(join(ROOT, "docs", "performance.svg"), drawChart(results));
  }
  console.log(`\nRaw results: ${file}`);
  return results.measurements.some(({ router, load }) => router.startsWith("ours") && load.errors > 0) ? 1 : 0;
}

process.exit(await main());
