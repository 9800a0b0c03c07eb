import { distanceKm, estimatedRoundTripMs } from "../../src/regions/place.ts";
import { DecodeEngine, PrefillEngine } from "./engines.ts";
import type { Agenda } from "./events.ts";
import { POPS, popPlace, REGIONS } from "./places.ts";

export const PREFILL = 33;
export const DECODE = 50;

/** Engines and the network: the truth, of which a router sees only what its own requests show. */
export class World {
  readonly agenda: Agenda;
  readonly prefill: PrefillEngine[][];
  readonly decode: DecodeEngine[][];
  readonly #random: () => number;
  readonly #rtt: number[][];
  /** Requests that were at a region when it died are told so. */
  readonly #onDeath = new Map<number, Set<() => void>>();

  constructor(agenda: Agenda, random: () => number) {
    this.agenda = agenda;
    this.#random = random;
    // 1,000 workers: 12 × 83, and four more decode workers.
    this.prefill = REGIONS.map((_, r) => Array.from({ length: PREFILL }, () => new PrefillEngine(r)));
    this.decode = REGIONS.map((_, r) => Array.from({ length: DECODE + (r < 4 ? 1 : 0) }, () => new DecodeEngine(r)));
    // Paths are longer than the great circle by something that no map tells.
    this.#rtt = POPS.map((_, pop) =>
      REGIONS.map((region) => estimatedRoundTripMs(distanceKm(popPlace(pop), region)) * (0.9 + 0.6 * random())),
    );
  }

  /** One round trip, as it is on average. */
  meanRtt(pop: number, region: number): number {
    return this.#rtt[pop]![region]!;
  }

  /** One round trip, this time. */
  rtt(pop: number, region: number): number {
    return this.meanRtt(pop, region) * (0.97 + 0.06 * this.#random()) + this.#random();
  }

  up(region: number): boolean {
    return this.prefill[region]!.some((engine) => engine.up) && this.decode[region]!.some((engine) => engine.up);
  }

  nearest(pop: number, left: (region: number) => boolean): number {
    let best = -1;
    for (let region = 0; region < REGIONS.length; region++) {
      if (left(region) && (best < 0 || this.meanRtt(pop, region) < this.meanRtt(pop, best))) best = region;
    }
    return best;
  }

  /** Part of a region's workers, or all of them, are gone from now on. */
  kill(region: number, share: number): void {
    for (const engines of [this.prefill[region]!, this.decode[region]!]) {
      for (const [index, engine] of engines.entries()) if (index < share * engines.length) engine.up = false;
    }
    if (share < 1) return;
    const struck = this.#onDeath.get(region) ?? new Set();
    this.#onDeath.delete(region);
    for (const tell of struck) tell();
  }

  restore(region: number): void {
    for (const engine of this.prefill[region]!) {
      if (engine.up) continue;
      engine.restart();
      engine.up = true;
    }
    for (const engine of this.decode[region]!) engine.up = true;
  }

  /** Calls `tell` if the region dies before the returned function is called. */
  watch(region: number, tell: () => void): () => void {
    let watchers = this.#onDeath.get(region);
    if (watchers === undefined) {
      watchers = new Set();
      this.#onDeath.set(region, watchers);
    }
    const set = watchers;
    set.add(tell);
    return () => set.delete(tell);
  }
}
