import type { Chooser, Placed } from "./chooser.ts";
import { REGIONS } from "./places.ts";
import type { Turn } from "./workload.ts";
import type { World } from "./world.ts";

/**
 * Least loaded with perfect knowledge: it knows every queue, every cache and every path as they are at this very moment, what is on its
 * way too, and takes the worker with the earliest first token. No router can know that much.
 */
export class Limit implements Chooser {
  readonly name = "perfect knowledge";
  readonly store = { messages: 0, bytes: 0 };
  readonly #world: World;
  /** Milliseconds of work on its way to each prefill worker. */
  readonly #coming: number[][];

  constructor(world: World) {
    this.#world = world;
    this.#coming = world.prefill.map((engines) => engines.map(() => 0));
  }

  choose(turn: Turn): Placed | undefined {
    const world = this.#world;
    const { now } = world.agenda;
    let least = Number.POSITIVE_INFINITY;
    let region = -1;
    let prefill = -1;
    for (let r = 0; r < REGIONS.length; r++) {
      if (!world.up(r)) continue;
      const away = 2 * world.meanRtt(turn.pop, r);
      if (away >= least) continue;
      for (const [p, engine] of world.prefill[r]!.entries()) {
        if (!engine.up) continue;
        const ms = away + engine.expectedMs(turn, now + away / 4) + this.#coming[r]![p]!;
        if (ms >= least) continue;
        least = ms;
        region = r;
        prefill = p;
      }
    }
    if (region < 0) return undefined;
    let decode = -1;
    for (const [d, engine] of world.decode[region]!.entries()) {
      if (engine.up && (decode < 0 || engine.running < world.decode[region]![decode]!.running)) decode = d;
    }
    const engine = world.prefill[region]![prefill]!;
    const work = engine.expectedMs(turn, engine.busyUntil);
    const coming = this.#coming[region]!;
    coming[prefill]! += work;
    // It is there after half a round trip; from then on the engine itself knows.
    world.agenda.at(now + world.meanRtt(turn.pop, region) / 2, () => {
      coming[prefill]! -= work;
    });
    const nothing = () => {};
    const told = {
      prefilled: nothing,
      answered: nothing,
      failed: nothing,
      releasePrefill: nothing,
      releaseDecode: nothing,
    };
    return { region, prefill, decode, ...told };
  }
}
