/**
 * Mixed traffic for a long time, and then: is everything back where it began?
 * Run: npm run soak -- --minutes 10 [--rate 12] [--seed 1]. Simulated engines, router and clients are one process, over real sockets.
 * Exit code 1 when something leaked, hung or lied.
 */
import { parseArgs } from "node:util";
import { type Level, readLevel, watchLag } from "./soak/levels.ts";
import { openStand, type Stand } from "./soak/stand.ts";
import { nextVisit, type Outcome, seeded, visitOnce } from "./soak/traffic.ts";

const { values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    minutes: { type: "string", default: "10" },
    rate: { type: "string", default: "12" },
    seed: { type: "string", default: "1" },
  },
});

const SAMPLE_MS = 1_000;
const ROWS = 20;
/** Caches fill and code is compiled in the first part; memory is compared from there on. */
const WARM = 0.2;
/** Longer than anything may linger: a leg, a tail, a kept-alive connection (5 s), a request without an answer. */
const CALM_MS = 25_000;
/** What a router asks its engines at the start goes over connections that the engines close after five seconds. */
const START_MS = 7_000;

/** What a comparison of memory allows: share and megabytes. Engines remember their last hand-offs (about 400 bytes a request, bounded): that is theirs, not the router's. The heap is compared after collections, RSS is the system's and coarser. */
const HEAP = { share: 1.15, plusMb: 8 };
const RSS = { share: 1.2, plusMb: 40 };
/** Objects that may be more at the end than after warm-up: what caches and the runtime keep. */
const OBJECTS = 400;

class Soak {
  readonly outcomes = new Map<Outcome, number>();
  readonly complaints: string[] = [];
  readonly levels: Level[] = [];
  readonly #stand: Stand;
  readonly #random: ReturnType<typeof seeded>;
  readonly #started = performance.now();
  #visits = new Set<Promise<void>>();

  constructor(stand: Stand, seed: number) {
    this.#stand = stand;
    this.#random = seeded(seed);
  }

  get seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  get requests(): number {
    return [...this.outcomes.values()].reduce((total, count) => total + count, 0);
  }

  /** Visits at random moments, `rate` a second on average, whether or not earlier ones are through. */
  async drive(seconds: number, rate: number): Promise<void> {
    let next = performance.now();
    while (this.seconds < seconds) {
      next += (-Math.log(1 - this.#random()) * 1000) / rate;
      await Bun.sleep(Math.max(0, next - performance.now()));
      const visit: Promise<void> = this.#visit().finally(() => this.#visits.delete(visit));
      this.#visits.add(visit);
    }
    await Promise.all(this.#visits);
  }

  async #visit(): Promise<void> {
    const { outcome, detail } = await visitOnce(this.#stand.port, nextVisit(this.#random), this.#random);
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    if (outcome === "lie" || outcome === "hang" || outcome === "broken frame") {
      this.complaints.push(`${outcome}: ${detail}`);
      console.log(`  ! ${outcome}: ${detail}`);
    }
  }

  /** Samples until `over`; prints some of them as it goes. */
  async watch(seconds: number, over: () => boolean): Promise<void> {
    const every = Math.max(1, Math.round(seconds / ROWS));
    printHead();
    const stopLag = watchLag();
    for (let round = 1; !over(); round++) {
      await Bun.sleep(SAMPLE_MS);
      // What the engines remember for tests is no leak of the router's.
      for (const engine of this.#stand.engines) engine.log.length = 0;
      if (round % every !== 0) continue;
      const level = await readLevel(this.#stand, this.seconds, true);
      this.levels.push(level);
      printLevel(level, this.requests);
    }
    stopLag();
  }

  /** Traffic has ended: waits until nothing is in use any more, and reads the levels once more. */
  async calm(base: Level): Promise<Level> {
    const end = performance.now() + CALM_MS;
    let level = await readLevel(this.#stand, this.seconds, true);
    while (performance.now() < end && !isCalm(level, base)) {
      await Bun.sleep(250);
      level = await readLevel(this.#stand, this.seconds, true);
    }
    return level;
  }
}

function isCalm(level: Level, base: Level): boolean {
  const { load, tokens, active, admitted, drains, engines, rooms } = level;
  return level.sockets <= base.sockets && load + tokens + active + admitted + drains + engines + rooms === 0;
}

interface Check {
  what: string;
  base: number;
  end: number;
  allowed: number;
  ok: boolean;
}

function check(what: string, base: number, end: number, allowed: number): Check {
  const round = (value: number) => Math.round(value * 10) / 10;
  return { what, base: round(base), end: round(end), allowed: round(allowed), ok: end <= allowed };
}

function judge(soak: Soak, base: Level, end: Level, seconds: number): Check[] {
  const { levels, outcomes } = soak;
  const warm = levels.filter(
    (level) => level.seconds <= Math.max(seconds * WARM * 2, 2) && level.seconds >= seconds * WARM,
  );
  const late = levels.filter((level) => level.seconds >= seconds * (1 - WARM));
  const most = (of: readonly Level[], read: (level: Level) => number) => Math.max(0, ...of.map(read));
  const warmHeap = most(warm, ({ heapMb }) => heapMb);
  const warmRss = most(warm, ({ rssMb }) => rssMb);
  const lateRss = Math.max(
    end.rssMb,
    most(late, ({ rssMb }) => rssMb),
  );
  const checks = [
    check("open sockets", base.sockets, end.sockets, base.sockets),
    check("heap MB (base: after warm-up)", warmHeap, end.heapMb, warmHeap * HEAP.share + HEAP.plusMb),
    check("RSS MB (base: after warm-up)", warmRss, lateRss, warmRss * RSS.share + RSS.plusMb),
    check("live objects", base.objects, end.objects, base.objects + OBJECTS),
  ];
  for (const what of ["load", "tokens", "active", "admitted", "drains", "engines", "rooms"] as const) {
    checks.push(check(what, base[what], end[what], 0));
  }
  for (const what of ["lie", "broken frame", "hang"] as const) checks.push(check(what, 0, outcomes.get(what) ?? 0, 0));
  // A run in which nothing was answered, left or failed has tested nothing.
  for (const what of ["answered", "error status", "error frame", "hung up"] as const) {
    const count = outcomes.get(what) ?? 0;
    checks.push({ what: `${what} (at least one)`, base: 0, end: count, allowed: Infinity, ok: count > 0 });
  }
  return checks;
}

const COLUMNS: readonly (keyof Level)[] = [
  "seconds",
  "sockets",
  "heapMb",
  "rssMb",
  "load",
  "tokens",
  "active",
  "admitted",
  "drains",
  "engines",
  "rooms",
  "objects",
  "lagMs",
];

function printHead(): void {
  console.log(["requests", ...COLUMNS].map((name) => name.padStart(9)).join(""));
}

function printLevel(level: Level, requests: number): void {
  const cells = COLUMNS.map((name) => (name.endsWith("Mb") ? level[name].toFixed(1) : String(Math.round(level[name]))));
  console.log([String(requests), ...cells].map((cell) => cell.padStart(9)).join(""));
}

async function main(): Promise<number> {
  const seconds = Number(values.minutes) * 60;
  const rate = Number(values.rate);
  if (!(seconds > 0 && rate > 0)) {
    console.error("Expected --minutes and --rate above 0");
    return 2;
  }
  const stand = await openStand();
  await Bun.sleep(START_MS);
  const base = await readLevel(stand, 0, true);
  const soak = new Soak(stand, Number(values.seed));
  console.log(`${values.minutes} minutes, ${rate} requests/s, seed ${values.seed}\n`);
  let over = false;
  const watching = soak.watch(seconds, () => over);
  await soak.drive(seconds, rate);
  over = true;
  await watching;
  const end = await soak.calm(base);
  console.log("\nafter the traffic");
  printLevel(end, soak.requests);
  console.log("");
  console.table(Object.fromEntries(soak.outcomes));
  const checks = judge(soak, base, end, seconds);
  console.table(checks);
  await stand.close();
  const failed = checks.filter(({ ok }) => !ok);
  console.log(
    failed.length === 0
      ? "everything is back at its base level"
      : `FAILED: ${failed.map(({ what }) => what).join(", ")}`,
  );
  return failed.length === 0 ? 0 : 1;
}

process.exit(await main());
