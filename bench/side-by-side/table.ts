import { FIGURES } from "./figures.ts";
import type { Measurement } from "./measure.ts";
import { floorOf, type Medians, mediansOf, type RunResults } from "./results.ts";

function markdown(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(" | ")} |`;
  const [head = [], ...rest] = rows;
  const rule = widths.map((width, column) => (column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`));
  return [line(head), line(rule), ...rest.map(line)].join("\n");
}

function routersIn(medians: Medians, all: readonly Measurement[]): string[] {
  const seen = new Set(Object.values(medians).flatMap((row) => Object.keys(row)));
  return [...new Set(all.map(({ router }) => router))].filter((router) => seen.has(router));
}

/** Medians: one row a figure, one column a router. */
export function figureTable(results: RunResults): string {
  const medians = mediansOf(results.measurements);
  const routers = routersIn(medians, results.measurements);
  const rows = FIGURES.filter(({ name }) => medians[name] !== undefined).map((figure) => [
    `${figure.scenario}: ${figure.title}, ${figure.unit}`,
    ...routers.map((router) => medians[figure.name]?.[router]?.toFixed(figure.digits) ?? "–"),
  ]);
  return markdown([["", ...routers], ...rows]);
}

/** Ours as a multiple of the others, in the same run. */
export function ratioTable(results: RunResults): string {
  const medians = mediansOf(results.measurements);
  const floor = floorOf(medians);
  const kinds = new Map(results.measurements.map(({ router, kind }) => [router, kind]));
  const peers = routersIn(medians, results.measurements).filter((router) => kinds.get(router) === "peer");
  const others = [...(floor === undefined ? [] : [floor]), "naive-split", ...peers];
  const rows: string[][] = [];
  for (const figure of FIGURES) {
    const row = medians[figure.name];
    if (figure.absolute === true || row?.ours === undefined) continue;
    const ratio = (other: string) => {
      // A router before vLLM engines is set beside ours before the same.
      const ours = other === "vllm-router" ? row["ours-vllm"] : row.ours;
      const theirs = row[other];
      return ours === undefined || theirs === undefined || theirs <= 0 ? "–" : `${(ours / theirs).toFixed(2)} ×`;
    };
    rows.push([`${figure.scenario}: ${figure.title}`, ...others.map(ratio)]);
  }
  return markdown([["ours is …", ...others.map((other) => `of ${other}`)], ...rows]);
}

/** What went wrong, and what the load itself cost. */
export function notes(results: RunResults): string[] {
  const lines = [...results.skipped];
  for (const each of results.measurements) {
    const where = `${each.router}, ${each.scenario}, round ${each.round + 1}`;
    if (each.load.errors > 0) lines.push(`${where}: ${each.load.errors} errors ${JSON.stringify(each.load.failures)}`);
    if (each.rejected > 0) lines.push(`${where}: engines refused ${each.rejected} requests`);
    if (!each.alive) lines.push(`${where}: the router ended`);
    if (Object.keys(each.load.otherEnds).length > 0)
      lines.push(`${where}: ended otherwise: ${JSON.stringify(each.load.otherEnds)}`);
  }
  const seconds = results.measurements.reduce((sum, { load }) => sum + load.seconds, 0);
  const other = results.measurements.reduce((sum, { otherCpuSeconds }) => sum + otherCpuSeconds, 0);
  lines.push(
    `Other work took ${((100 * other) / (seconds * results.cores)).toFixed(0)} % of the machine's ${results.cores} cores meanwhile`,
  );
  for (const [scenario, per] of [
    ["S1", "requests"],
    ["S2", "events"],
  ] as const) {
    const mine = results.measurements.filter((each) => each.scenario === scenario);
    const count = mine.reduce((sum, { load }) => sum + load[per], 0);
    if (count === 0) continue;
    const engines = (1e6 * mine.reduce((sum, { engineCpuSeconds }) => sum + engineCpuSeconds, 0)) / count;
    const load = (1e6 * mine.reduce((sum, each) => sum + each.load.cpuSeconds, 0)) / count;
    lines.push(
      `${scenario}: engines cost ${engines.toFixed(1)} µs, the load generator ${load.toFixed(1)} µs per ${per.slice(0, -1)}`,
    );
  }
  return lines;
}
