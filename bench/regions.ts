/**
 * What choosing a region and sharing state cost one router: twelve pools of 33 prefill and 50 decode workers, fifty routers.
 * Run: bun bench/regions.ts. Measures this machine.
 */
import { PoolChoice } from "../src/regions/choose-pools.ts";
import { type LoadReport, readReport, writeReport } from "../src/shared/load-report.ts";
import { PrefixSketch } from "../src/shared/prefix-sketch.ts";
import { Topic } from "../src/shared/topic.ts";
import { fleetConfig, makeFleet, makeInput, poolConfig, seeded, workerConfig } from "../test/workers/fixtures.ts";
import { POPS, popPlace, REGIONS } from "./simulation/places.ts";

const random = seeded(3);
const heapBefore = process.memoryUsage().heapUsed;
const pools = REGIONS.map(({ name }) => {
  const list = (role: string, count: number) =>
    Array.from({ length: count }, (_, n) => workerConfig(`${role}${n}-${name}`));
  return poolConfig(name, { engine: "vllm", region: name, prefill: list("p", 33), decode: list("d", 50) });
});
const models = [{ id: "m", aliases: [], adapters: [], pools }];
const fleet = makeFleet(fleetConfig({ models }));
Bun.gc(true);
const fleetBytes = process.memoryUsage().heapUsed - heapBefore;

const model = fleet.model("m")!;
const text = (length: number, salt: number) =>
  Array.from({ length: length / 8 }, (_, n) => ((n * 7919 + salt * 104_729) % 2 ** 31).toString(36).padStart(8)).join(
    "",
  );
const inputs = (length: number) => Array.from({ length: 64 }, (_, n) => makeInput(text(length, n), `session-${n}`));
const report: LoadReport = {
  workers: new Map(
    [...model.pools[0]!.prefill, ...model.pools[0]!.decode].map(({ name }, n) => [name, [n % 7, n * 300, 0]]),
  ),
  prefixes: new Map([["p0-us-east", Array.from({ length: 128 }, () => Math.floor(random() * 2 ** 32))]]),
};
const written = writeReport(report);
const topic = new Topic(model.pools[0]!, 0);
for (let n = 0; n < 49; n++) topic.heard(`load:${n}`, report, 0);

let now = 0;
const choice = (sharing: boolean | undefined) =>
  new PoolChoice(
    { regions: [...REGIONS], location: undefined },
    fleet,
    sharing === undefined ? undefined : new PrefixSketch(1, sharing),
  );
const order = (chooser: PoolChoice, list: ReturnType<typeof inputs>) => (n: number) => {
  now += 0.2;
  const input = list[n % list.length]!;
  const visit = { place: popPlace(n % POPS.length), allowedRegions: undefined };
  chooser.order(model, visit, input, now);
  chooser.chosen(model.pools[n % 12]!.prefill[n % 33]!, input, now);
};

console.table(
  [
    ["order of 12 pools, by distance and queue alone", measure(20_000, order(choice(undefined), inputs(1_000)))],
    ["the same with prefix reuse, prompts of 1,000 characters", measure(20_000, order(choice(true), inputs(1_000)))],
    ["the same, 32,000 characters", measure(5_000, order(choice(true), inputs(32_000)))],
    ["a report on 83 workers and 128 hashes: written", measure(2_000, () => writeReport(report))],
    ["read and checked", measure(2_000, () => readReport(written))],
    ["49 such reports added up", measure(500, () => topic.apply(1_000, true))],
  ].map(([what, us]) => ({ what, microseconds: us })),
);
console.log(
  `a report is ${written.length} bytes; a fleet of 996 workers takes ${(fleetBytes / 2 ** 20).toFixed(1)} MiB`,
);

/** Microseconds per call, the best of five rounds. */
function measure(rounds: number, call: (n: number) => void): number {
  let best = Number.POSITIVE_INFINITY;
  for (let n = 0; n < rounds; n++) call(n);
  for (let round = 0; round < 5; round++) {
    const since = performance.now();
    for (let n = 0; n < rounds; n++) call(n);
    best = Math.min(best, ((performance.now() - since) * 1_000) / rounds);
  }
  return Number(best.toPrecision(3));
}
