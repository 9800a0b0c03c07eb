import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { createAxes } from "../../src/telemetry/families.ts";
import { Metrics } from "../../src/telemetry/metrics.ts";
import { METRIC } from "../../src/telemetry/names.ts";
import { readExposition, streamedRecord, WALL } from "./hand-made.ts";

interface Dashboard {
  panels: {
    id: number;
    title: string;
    type: string;
    gridPos: Place;
    targets?: { expr: string; legendFormat: string }[];
  }[];
  templating: { list: { name: string; definition?: string }[] };
  annotations: { list: { expr: string }[] };
}
interface Place {
  x: number;
  y: number;
  w: number;
  h: number;
}
interface Rule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string };
}
interface Query {
  where: string;
  expr: string;
  text: string;
}

const dashboard = JSON.parse(read("grafana-dashboard.json")) as Dashboard;
const rules = (parse(read("alerts.yaml")) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const shown: Query[] = [
  ...dashboard.panels.flatMap((panel) =>
    (panel.targets ?? []).map(({ expr, legendFormat }) => ({ where: panel.title, expr, text: legendFormat })),
  ),
  ...dashboard.annotations.list.map(({ expr }) => ({ where: "annotation", expr, text: "" })),
];
const alerting: Query[] = rules.map(({ alert, expr, annotations }) => ({
  where: alert,
  expr,
  text: annotations.summary,
}));
const queries = [...shown, ...alerting];

/** Labels by sample name, from a router in which everything has happened once. */
const labelsBySample = observedLabels();
const FROM_PROMETHEUS = ["job", "instance", "le"];

function read(name: string): string {
  return readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8");
}

function observedLabels(): Map<string, Set<string>> {
  const metrics = new Metrics({
    models: ["m"],
    version: "1",
    startedAt: WALL,
    inProgress: () => 1,
    spans: () => ({ exported: 0, dropped: 0 }),
  });
  metrics.observeFleet(() => ({
    workers: [
      {
        name: "p0",
        role: "prefill",
        pool: "default",
        inFlight: 1,
        queuedTokens: 1,
        healthy: true,
        breaker: "closed",
        draining: false,
      },
    ],
    queueLength: 0,
  }));
  metrics.requestDone(streamedRecord({ code: "internal", stage: "router" }));
  metrics.retry("reset", "prefill");
  metrics.breakerChange("p0", "open");
  metrics.probe("p0", "ok");
  metrics.storeExchange(true);
  metrics.policyChoice("prefix-aware", "prefill", "prefix");
  const labels = new Map<string, Set<string>>();
  for (const sample of readExposition(metrics.render()).samples) {
    const known = labels.get(sample.name) ?? new Set();
    for (const label of Object.keys(sample.labels)) known.add(label);
    labels.set(sample.name, known);
  }
  return labels;
}

/** `name{a="b",…}` as it stands in a query. */
function selectors(expr: string): { name: string; matchers: [label: string, operator: string, value: string][] }[] {
  return [...expr.matchAll(/\b(prefill_router_[a-z_]+)(?:\{([^}]*)\})?/g)].map((match) => ({
    name: match[1]!,
    matchers: [...(match[2] ?? "").matchAll(/([a-z_]+)(=~|!~|!=|=)"([^"]*)"/g)].map((part) => [
      part[1]!,
      part[2]!,
      part[3]!,
    ]),
  }));
}

describe("dashboard and alerts", () => {
  test("ask only for metrics that exist, histograms by their buckets", () => {
    for (const { where, expr } of queries) {
      const found = selectors(expr);
      expect(found.length, where).toBeGreaterThan(0);
      for (const { name } of found) expect(labelsBySample.has(name) ? name : `${where}: ${name}`).toBe(name);
      if (expr.includes("histogram_quantile")) expect(found[0]!.name, where).toEndWith("_seconds_bucket");
    }
  });

  test("select only by labels the metric has, and by values it can have", () => {
    const axes = Object.values(createAxes([]));
    for (const { where, expr } of queries) {
      for (const { name, matchers } of selectors(expr)) {
        for (const [label, operator, value] of matchers) {
          if (label === "job") continue;
          expect([...labelsBySample.get(name)!], `${where}: ${name}`).toContain(label);
          if (value.startsWith("$")) continue;
          const values = operator.endsWith("~") ? value.split("|") : [value];
          const possible = axes.filter((axis) => axis.label === label).flatMap((axis) => axis.values);
          for (const each of values) expect(possible, `${where}: ${label}`).toContain(each);
        }
      }
    }
  });

  test("group and name only by labels that some metric of the query has", () => {
    for (const { where, expr, text } of queries) {
      const known = new Set(FROM_PROMETHEUS);
      for (const { name } of selectors(expr)) for (const label of labelsBySample.get(name)!) known.add(label);
      const grouped = [...expr.matchAll(/\b(?:by|on|group_left) \(([^)]*)\)/g)].flatMap((match) =>
        match[1]!.split(/,\s*/),
      );
      const named = [...text.matchAll(/\{\{\s*(?:\$labels\.)?([a-z]+)\s*\}\}/g)].map((match) => match[1]!);
      for (const label of [...grouped, ...named]) expect([...known], where).toContain(label);
      // What an aggregation has summed away cannot be named.
      const outer = /^(?:histogram_quantile\([0-9.]+, )?(?:sum|min|max) by \(([^)]*)\)/.exec(expr.trim());
      if (outer !== null) for (const label of named) expect(outer[1]!.split(/,\s*/), where).toContain(label);
    }
  });

  test("have balanced brackets in every query", () => {
    for (const { where, expr } of queries) {
      let depth = 0;
      for (const character of expr) {
        if (character === "(") depth++;
        if (character === ")") depth--;
        expect(depth, where).toBeGreaterThanOrEqual(0);
      }
      expect(depth, where).toBe(0);
    }
  });
});

describe("dashboard", () => {
  test("shows every metric there is", () => {
    const asked = new Set(shown.flatMap(({ expr }) => selectors(expr).map(({ name }) => name.replace(/_bucket$/, ""))));
    expect(Object.values(METRIC).filter((name) => !asked.has(name))).toEqual([]);
  });

  test("has panels with ids of their own that do not lie on each other", () => {
    const taken = new Map<string, string>();
    expect(new Set(dashboard.panels.map((panel) => panel.id)).size).toBe(dashboard.panels.length);
    for (const { title, gridPos } of dashboard.panels) {
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.get(`${x},${y}`), title).toBeUndefined();
          taken.set(`${x},${y}`, title);
        }
      }
    }
  });

  test("takes its variables from labels that exist", () => {
    for (const { name, definition } of dashboard.templating.list) {
      if (definition === undefined) continue;
      const metric = /^label_values\((prefill_router_[a-z_]+), ([a-z]+)\)$/.exec(definition);
      expect(metric?.[2]).toBe(name);
      expect([...FROM_PROMETHEUS, ...labelsBySample.get(metric![1]!)!]).toContain(name);
    }
  });
});

describe("alerts", () => {
  test("each has a name of its own, a severity and a summary in words", () => {
    expect(new Set(rules.map((rule) => rule.alert)).size).toBe(rules.length);
    for (const rule of rules) {
      expect(rule.alert).toMatch(/^PrefillRouter[A-Za-z]+$/);
      expect(["info", "warning", "critical"]).toContain(rule.labels.severity);
      expect(rule.annotations.summary.length).toBeGreaterThan(20);
      if (rule.for !== undefined) expect(rule.for).toMatch(/^\d+[smh]$/);
    }
  });
});
