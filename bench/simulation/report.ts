import { BUCKET_MS, type Figures, percentile, type Summary } from "./figures.ts";
import { REGIONS } from "./places.ts";
import type { Plan } from "./simulation.ts";
import { type Line, type Plot, svgOf } from "./svg.ts";

const COLOURS: Readonly<Record<string, string>> = {
  router: "#1f5fbf",
  "router without a store": "#7aa6e0",
  nearest: "#c8501e",
  random: "#8c8c8c",
  "perfect knowledge": "#1c8a4a",
};
const REGION_COLOURS = [
  "#1f5fbf",
  "#5b8fd8",
  "#9bbfea",
  "#2f9e8f",
  "#c8501e",
  "#e08a5f",
  "#f0bf9f",
  "#7a4fa3",
  "#b38fd0",
  "#1c8a4a",
  "#6cc08b",
  "#8c8c8c",
];

/** The table of docs/scale.md. */
export function table(summaries: readonly Summary[]): string {
  const limit = summaries.find(({ policy }) => policy === "perfect knowledge");
  const rows: [string, (summary: Summary) => string][] = [
    ["time to first token, mean", ({ meanMs }) => ms(meanMs)],
    [
      "– against perfect knowledge",
      ({ meanMs }) => (limit === undefined ? "" : `${signed(meanMs / limit.meanMs - 1)}`),
    ],
    ["– of it on the network", ({ networkMs }) => ms(networkMs)],
    ["– of it waiting for prefill", ({ waitMs }) => ms(waitMs)],
    ["median", ({ p50 }) => ms(p50)],
    ["p90", ({ p90 }) => ms(p90)],
    ["p99", ({ p99 }) => ms(p99)],
    ["p99.9", ({ p999 }) => ms(p999)],
    ["prompt tokens reused", ({ reuse }) => percent(reuse)],
    ["not served by the nearest region", ({ spill }) => percent(spill)],
    ["busiest worker / mean", ({ workerImbalance }) => workerImbalance.toFixed(2)],
    ["busiest region / mean", ({ regionImbalance }) => regionImbalance.toFixed(2)],
    ["longest prefill backlog, p99 of seconds", ({ backlogP99Ms }) => ms(backlogP99Ms)],
    ["regions' shares moved in 5 s, mean", ({ swing }) => percent(swing / 2)],
    ["requests", ({ requests }) => requests.toLocaleString("en")],
    ["lost (no retry left)", ({ lost }) => lost.toLocaleString("en")],
    ["open streams that died with a region", ({ broken }) => broken.toLocaleString("en")],
    ["retries", ({ retries }) => retries.toLocaleString("en")],
    ["messages to the store, per router and second", ({ storeMessages }) => storeMessages.toFixed(1)],
    ["bytes written to it, per router and second", ({ storeBytes }) => Math.round(storeBytes).toLocaleString("en")],
  ];
  return [
    `| | ${summaries.map(({ policy }) => policy).join(" | ")} |`,
    `| --- |${summaries.map(() => " ---: |").join("")}`,
    ...rows.map(([name, show]) => `| ${name} | ${summaries.map(show).join(" | ")} |`),
  ].join("\n");
}

export function ttftPlot(all: readonly Figures[]): string {
  const shares = [...Array.from({ length: 99 }, (_, index) => (index + 1) / 100), 0.995, 0.999];
  const place = (share: number) => -Math.log10(1 - share);
  const lines = all.map(({ policy, ttft }): Line => {
    const sorted = Float64Array.from(ttft).sort();
    return {
      name: policy,
      colour: COLOURS[policy] ?? "#000000",
      points: shares.map((share) => [place(share), sorted[Math.floor(share * sorted.length)]!]),
    };
  });
  return svgOf({
    title: "Time to first token, by share of requests that have it",
    x: {
      label: "share of requests",
      ticks: [
        [0, "0"],
        [place(0.5), "50 %"],
        [1, "90 %"],
        [2, "99 %"],
        [3, "99.9 %"],
      ],
    },
    y: {
      label: "milliseconds",
      log: true,
      ticks: [
        [50, "50"],
        [100, "100"],
        [200, "200"],
        [500, "500"],
        [1_000, "1,000"],
        [2_000, "2,000"],
        [5_000, "5,000"],
        [10_000, "10,000"],
      ],
    },
    lines,
  });
}

export function dayPlot(all: readonly Figures[], plan: Plan): string {
  const lines = all
    .filter(({ policy }) => policy !== "random")
    .map(
      ({ policy, buckets }): Line => ({
        name: policy,
        colour: COLOURS[policy] ?? "#000000",
        points: buckets.map((values, index) => [seconds(index), percentile(values, 0.95)]),
      }),
    );
  return svgOf({
    title: "95th percentile of time to first token over the day (each point: 5 seconds)",
    ...overTheDay(plan),
    y: {
      label: "milliseconds",
      ticks: [0, 1_000, 2_000, 3_000, 4_000, 5_000].map((at) => [at, at.toLocaleString("en")]),
    },
    lines,
  });
}

export function sharesPlot({ regions }: Figures, plan: Plan): string {
  const lines = REGIONS.map(
    ({ name }, region): Line => ({
      name,
      colour: REGION_COLOURS[region]!,
      points: regions.map((counts, index) => [
        seconds(index),
        (100 * counts[region]!) / counts.reduce((sum, count) => sum + count, 0),
      ]),
    }),
  );
  return svgOf({
    title: "Where the router sends requests: share of each region",
    ...overTheDay(plan),
    y: { label: "% of requests", ticks: [0, 5, 10, 15, 20].map((at) => [at, String(at)]) },
    lines,
  });
}

function overTheDay({ lengthMs, outages }: Plan): Pick<Plot, "x" | "bands"> {
  const ticks = Array.from({ length: 9 }, (_, index) => {
    const at = (index * lengthMs) / 8_000;
    return [at, `${at} s`] as const;
  });
  return {
    x: { label: "a day of 480 seconds, in UTC from midnight", ticks },
    bands: outages.map(({ region, at, ms: length, share }) => ({
      from: at / 1_000,
      to: (at + length) / 1_000,
      text: share === 1 ? `${region} is down` : `${region}: half`,
    })),
  };
}

function seconds(bucket: number): number {
  return ((bucket + 0.5) * BUCKET_MS) / 1_000;
}

function ms(value: number): string {
  return `${Math.round(value).toLocaleString("en")} ms`;
}

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

function signed(value: number): string {
  return `${value >= 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)} %`;
}
