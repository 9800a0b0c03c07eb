import { PoolChoice } from "../../src/regions/choose-pools.ts";
import { type LoadReport, writeReport } from "../../src/shared/load-report.ts";
import { PrefixSketch } from "../../src/shared/prefix-sketch.ts";
import { Topic } from "../../src/shared/topic.ts";
import { choose } from "../../src/workers/choose.ts";
import type { Fleet } from "../../src/workers/fleet.ts";
import type { Pool } from "../../src/workers/pool.ts";
import { fleetConfig, makeFleet, poolConfig, seeded, workerConfig } from "../../test/workers/fixtures.ts";
import type { Chooser, Placed } from "./chooser.ts";
import type { Agenda } from "./events.ts";
import { POPS, popPlace, REGIONS } from "./places.ts";
import type { Turn } from "./workload.ts";
import type { World } from "./world.ts";

const EXCHANGE_MS = 1_000;
/** The interval of health checks, by default. */
const PROBE_MS = 5_000;
/** Messages take that long to the store and back. */
const STORE_MS = 80;

/** One point of presence with the router's own fleet, region choice, policies and sketch. */
class PointOfPresence {
  readonly fleet: Fleet;
  readonly choice: PoolChoice;
  readonly sketch: PrefixSketch;
  readonly topics: Topic[];

  constructor(pop: number, world: World, sharing: boolean) {
    const pools = REGIONS.map(({ name }, r) => {
      const list = (role: string, count: number) =>
        Array.from({ length: count }, (_, n) => workerConfig(`${role}${n}-${name}`));
      return poolConfig(name, {
        engine: "vllm",
        region: name,
        prefill: list("p", world.prefill[r]!.length),
        decode: list("d", world.decode[r]!.length),
      });
    });
    const config = fleetConfig({
      models: [{ id: "m", aliases: [], adapters: [], pools }],
      policy: { prefill: "prefix-aware", decode: "least-load" },
      breaker: { failures: 5, openMs: 10_000, enabled: true },
    });
    this.fleet = makeFleet(config, { now: () => world.agenda.now, random: seeded(pop + 1) });
    this.sketch = new PrefixSketch(7, sharing);
    this.choice = new PoolChoice({ regions: [...REGIONS], location: undefined }, this.fleet, this.sketch);
    this.topics = this.fleet.allPools().map((pool) => new Topic(pool, 0));
  }
}

/** How a pool is chosen; the worker within it is always chosen by the router's own code. */
export type RegionPolicy = "router" | "router without a store" | "nearest" | "random";

/** Fifty routers that run the code in `src/`. */
export class Routers implements Chooser {
  readonly name: string;
  readonly store = { messages: 0, bytes: 0 };
  readonly #policy: RegionPolicy;
  readonly #world: World;
  readonly #agenda: Agenda;
  readonly #random: () => number;
  readonly #pops: PointOfPresence[];
  /** What stands on each pool's board: who wrote it when. */
  readonly #boards: Map<number, { report: LoadReport; at: number }>[] = REGIONS.map(() => new Map());
  readonly #readAt = new Map<string, number>();

  constructor(policy: RegionPolicy, world: World) {
    this.name = policy;
    this.#policy = policy;
    this.#world = world;
    this.#agenda = world.agenda;
    this.#random = seeded(77);
    // Nearest shares too, so that it chooses workers as well informed as the router does, and only the choice of a region differs.
    const shares = policy === "router" || policy === "nearest";
    this.#pops = POPS.map((_, pop) => new PointOfPresence(pop, world, policy === "router"));
    for (const pop of POPS.keys()) this.#agenda.at(this.#random() * PROBE_MS, () => this.#probe(pop));
    if (!shares) return;
    for (const pop of POPS.keys()) {
      for (const region of REGIONS.keys()) {
        this.#agenda.at(this.#random() * EXCHANGE_MS, () => this.#exchange(pop, region));
      }
    }
  }

  choose(turn: Turn, failed: ReadonlySet<number>): Placed | undefined {
    const { now } = this.#agenda;
    const at = this.#pops[turn.pop]!;
    const model = at.fleet.model("m")!;
    const visit = { place: popPlace(turn.pop), allowedRegions: undefined };
    for (const pool of this.#order(at, turn, visit, failed)) {
      const told = this.#policy === "router" ? at.choice.told(pool, turn.input, now) : undefined;
      const decode = choose(pool, "decode", turn.input, { now });
      const prefill = decode && choose(pool, "prefill", turn.input, { now, told });
      if (decode === undefined || prefill === undefined) {
        decode?.release();
        continue;
      }
      at.choice.chosen(prefill.worker, turn.input, now);
      return {
        region: model.pools.indexOf(pool),
        prefill: pool.prefill.indexOf(prefill.worker),
        decode: pool.decode.indexOf(decode.worker),
        prefilled: (ms) => {
          prefill.worker.succeeded(this.#agenda.now);
          at.choice.prefilled(pool, visit, prefill.tokens, ms, this.#agenda.now);
        },
        answered: (ms) => {
          decode.worker.succeeded(this.#agenda.now);
          at.choice.answered(pool, visit, ms, this.#agenda.now);
        },
        failed: (who) => {
          (who === "prefill" ? prefill : decode).worker.failed(this.#agenda.now);
          at.choice.failed(pool, this.#agenda.now);
        },
        releasePrefill: () => prefill.release(),
        releaseDecode: () => decode.release(),
      };
    }
    return undefined;
  }

  #order(
    at: PointOfPresence,
    turn: Turn,
    visit: Parameters<PoolChoice["order"]>[1],
    failed: ReadonlySet<number>,
  ): readonly Pool[] {
    const { now } = this.#agenda;
    const model = at.fleet.model("m")!;
    const { pools } = model;
    if (this.#policy === "router" || this.#policy === "router without a store") {
      return at.choice.order(model, visit, turn.input, now, new Set([...failed].map((region) => pools[region]!)));
    }
    const order = [...pools.keys()];
    if (this.#policy === "random") order.sort((a, b) => draw(turn, a) - draw(turn, b));
    else order.sort((a, b) => this.#world.meanRtt(turn.pop, a) - this.#world.meanRtt(turn.pop, b));
    const rank = (region: number) => Number(failed.has(region)) + 2 * Number(!pools[region]!.serving(now));
    return order.sort((a, b) => rank(a) - rank(b)).map((region) => pools[region]!);
  }

  /** Health checks as the router makes them: each worker in its interval, into the worker's own health. */
  #probe(pop: number): void {
    const { now } = this.#agenda;
    for (const [region, pool] of this.#pops[pop]!.fleet.model("m")!.pools.entries()) {
      for (const role of ["prefill", "decode"] as const) {
        for (const [index, worker] of pool[role].entries()) {
          if (!worker.health.due(now)) continue;
          worker.health.begin(now);
          const { up } = this.#world[role][region]![index]!;
          worker.health.report(up ? { kind: "answer", status: 200 } : { kind: "error" }, now);
        }
      }
    }
    this.#agenda.at(now + PROBE_MS / 5, () => this.#probe(pop));
  }

  /** One exchange of one router about one pool, by the router's own `Topic` and reports; only the network in between is ours. */
  #exchange(pop: number, region: number): void {
    const { now } = this.#agenda;
    const at = this.#pops[pop]!;
    const topic = at.topics[region]!;
    const prefixes = at.sketch.news(topic.pool.topic);
    const report: LoadReport = { workers: topic.loads(now), prefixes };
    const board = this.#boards[region]!;
    this.store.messages += 1;
    const speaks = report.workers.size > 0 || prefixes.size > 0;
    if (speaks || topic.spoke) {
      this.store.bytes += writeReport(report).length;
      board.set(pop, { report, at: now + STORE_MS / 2 });
    }
    topic.spoke = speaks;
    this.#agenda.at(now + STORE_MS, () => {
      const since = this.#readAt.get(`${pop} ${region}`) ?? -1;
      for (const [other, { report, at: writtenAt }] of board) {
        if (other === pop || writtenAt <= since) continue;
        topic.heard(`load:${other}`, report, writtenAt);
        for (const [worker, hashes] of report.prefixes)
          at.sketch.learn(topic.pool.topic, worker, hashes, this.#agenda.now);
      }
      this.#readAt.set(`${pop} ${region}`, now + STORE_MS / 2);
      topic.apply(this.#agenda.now, true);
    });
    this.#agenda.at(now + EXCHANGE_MS * (1 + 0.1 * this.#random()), () => this.#exchange(pop, region));
  }
}

/** Random, and the same for all tries of one turn. */
function draw({ session, promptTokens }: Turn, region: number): number {
  return seeded(session * 131 + promptTokens * 7 + region * 1_000_003)();
}
