import { PoolChoice } from "../regions/choose-pools.ts";
import type { Place } from "../regions/place.ts";
import { Fleet } from "../workers/fleet.ts";
import type { LoadedConfig } from "./load.ts";
import type { Output } from "./output.ts";

/** What each pool costs, seen from one place, before anything has been measured or queued. Milliseconds. */
export interface CostReport {
  /** Null: nobody knows a place, so distance says nothing. */
  from: Place | null;
  models: {
    id: string;
    pools: {
      name: string;
      region: string | null;
      distanceMs: number;
      queueMs: number;
      reuseMs: number;
      totalMs: number;
      /** Expected share of sessions, 0…1. */
      share: number;
      /** Client keys whose requests never come here (`allowedRegions`). */
      notFor: string[];
    }[];
  }[];
}

/** A prompt of middling length: it makes no difference as long as nothing is cached. */
const PROMPT_TOKENS = 1000;

/** Asks the router's own choice code; `place` defaults to the router's location. */
export function costReport({ config, secrets }: LoadedConfig, place: Place | undefined): CostReport {
  const fleet = new Fleet(config, secrets.workerKeys, { now: () => 0, random: () => 0 });
  const choice = new PoolChoice(config, fleet);
  const own = config.regions.find(({ name }) => name === config.location?.region);
  const from = place ?? own;
  const keys = config.auth.clientKeys ?? [];
  return {
    from: from === undefined ? null : { latitude: from.latitude, longitude: from.longitude },
    models: fleet.models().map((model) => ({
      id: model.id,
      pools: choice.explain(model, { place, allowedRegions: undefined }, PROMPT_TOKENS, 0).map((cost) => ({
        name: cost.pool.name,
        region: cost.pool.region ?? null,
        distanceMs: cost.distanceMs,
        queueMs: cost.queueMs,
        reuseMs: cost.reuseMs,
        totalMs: cost.totalMs,
        share: cost.share,
        notFor: keys
          .filter(({ allowedRegions: to }) => to !== undefined && !to.includes(cost.pool.region ?? ""))
          .map(({ name }) => name),
      })),
    })),
  };
}

/** For a person: cheapest first. */
export function printCosts({ from, models }: CostReport, { line, paint }: Output): void {
  const where =
    from === null ? "an unknown place (name one, or configure location)" : `${from.latitude},${from.longitude}`;
  line(`costs seen from ${where}; distance by the map, nothing queued or cached yet`);
  for (const { id, pools } of models) {
    line(`  ${paint.bold(`model ${id}`)}`);
    for (const pool of pools) {
      const parts = [
        `pool ${pool.name}`.padEnd(24),
        (pool.region ?? "no region").padEnd(16),
        `distance ${ms(pool.distanceMs)} + queue ${ms(pool.queueMs)} - reuse ${ms(pool.reuseMs)} = ${ms(pool.totalMs)}`,
        ` ${(pool.share * 100).toFixed(1)} % of sessions`,
      ];
      const border = pool.notFor.length === 0 ? "" : paint.warn(`  never for ${pool.notFor.join(", ")}`);
      line(`    ${parts.join(" ")}${border}`);
    }
  }
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
