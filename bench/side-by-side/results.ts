import { FIGURES, type Figure } from "./figures.ts";
import type { Measurement } from "./measure.ts";

export interface RunResults {
  /** ISO date of the run. */
  date: string;
  commit: string;
  cpu: string;
  cores: number;
  bun: string;
  rounds: number;
  quick: boolean;
  fileLimit: number;
  idleStreams: number;
  skipped: string[];
  measurements: Measurement[];
}

/** figure → router → median over the rounds. */
export type Medians = Record<string, Record<string, number>>;

/** What is committed: the medians without the raw measurements, which are many and the machine's. */
export interface Baseline extends Omit<RunResults, "measurements"> {
  medians: Medians;
}

export function baselineOf({ measurements, ...run }: RunResults): Baseline {
  return { ...run, medians: mediansOf(measurements) };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

function valuesOf(figure: Figure, all: readonly Measurement[]): Map<string, number[]> {
  const mine = all.filter(({ scenario }) => scenario === figure.scenario);
  const direct = new Map(mine.filter(({ router }) => router === "direct").map((each) => [each.round, each]));
  const values = new Map<string, number[]>();
  for (const each of mine) {
    if (each.router === "direct") continue;
    const value = figure.of(each, direct.get(each.round));
    if (value !== undefined && Number.isFinite(value))
      values.set(each.router, [...(values.get(each.router) ?? []), value]);
  }
  return values;
}

export function mediansOf(all: readonly Measurement[]): Medians {
  const medians: Medians = {};
  for (const figure of FIGURES) {
    const row: Record<string, number> = {};
    for (const [router, values] of valuesOf(figure, all)) row[router] = median(values);
    if (Object.keys(row).length > 0) medians[figure.name] = row;
  }
  return medians;
}

/** The plain proxy that ratios are made against: nginx, else haproxy. */
export function floorOf(medians: Medians): string | undefined {
  const routers = new Set(Object.values(medians).flatMap((row) => Object.keys(row)));
  return ["nginx", "haproxy"].find((name) => routers.has(name));
}
