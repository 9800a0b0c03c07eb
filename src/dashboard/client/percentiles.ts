import type { RequestRow } from "../update.ts";

export interface Percentiles {
  name: string;
  /** What is measured, for those who hover or listen. */
  meaning: string;
  of: number;
  p50: number;
  p90: number;
  p99: number;
}

const MEASURES: readonly [name: string, meaning: string, of: (row: RequestRow) => number | undefined][] = [
  [
    "First token",
    "From the request to decode's first token, streams only",
    (row) => (row.stream ? row.firstToken : undefined),
  ],
  ["Whole request", "From the request to its end", (row) => row.finished],
  ["Prefill", "Prefill leg: sent to done", (row) => between(row.prefillSent, row.prefillDone)],
  [
    "Decode wait",
    "Decode leg: sent to first token, streams only",
    (row) => (row.stream ? between(row.decodeSent, row.firstToken) : undefined),
  ],
];

/** Percentiles of the good requests among `rows`: how long a failed one took says nothing about pace. */
export function percentiles(rows: readonly RequestRow[]): Percentiles[] {
  const good = rows.filter((row) => row.outcome === "success" && row.path !== "");
  return MEASURES.map(([name, meaning, measure]) => {
    const values = good
      .map(measure)
      .filter((value) => value !== undefined)
      .sort((a, b) => a - b);
    return {
      name,
      meaning,
      of: values.length,
      p50: rank(values, 0.5),
      p90: rank(values, 0.9),
      p99: rank(values, 0.99),
    };
  });
}

/** Nearest rank: always a value that was measured. NaN of none. */
function rank(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

function between(from: number | undefined, to: number | undefined): number | undefined {
  return from !== undefined && to !== undefined && to >= from ? to - from : undefined;
}
