import type { Measurement } from "./measure.ts";

/** A number that is compared between routers: lower is better in all of them. */
export interface Figure {
  name: string;
  scenario: string;
  title: string;
  unit: string;
  digits: number;
  /** `direct` is what the same round measured without a router. */
  of(measured: Measurement, direct: Measurement | undefined): number | undefined;
  /** Not a cost that can be set in relation to a plain proxy. */
  absolute?: boolean;
}

function perRequest({ routerCpuSeconds, load }: Measurement): number | undefined {
  return load.requests === 0 ? undefined : (routerCpuSeconds * 1e6) / load.requests;
}

function perEvent({ routerCpuSeconds, load }: Measurement): number | undefined {
  return load.events === 0 ? undefined : (routerCpuSeconds * 1e6) / load.events;
}

export const FIGURES: readonly Figure[] = [
  {
    name: "S0 first token",
    scenario: "S0",
    title: "first token added over direct",
    unit: "µs",
    digits: 0,
    of: ({ load }, direct) => (direct === undefined ? undefined : load.firstUs.p50 - direct.load.firstUs.p50),
  },
  { name: "S1 CPU", scenario: "S1", title: "short buffered request", unit: "µs CPU", digits: 0, of: perRequest },
  { name: "S2 CPU", scenario: "S2", title: "streamed event at full speed", unit: "µs CPU", digits: 1, of: perEvent },
  { name: "S3 CPU", scenario: "S3", title: "event of 1,000 slow streams", unit: "µs CPU", digits: 1, of: perEvent },
  {
    name: "S3 memory",
    scenario: "S3",
    title: "peak with 1,000 slow streams",
    unit: "MB",
    digits: 0,
    of: ({ peakMb }) => peakMb,
  },
  { name: "S4 CPU", scenario: "S4", title: "request with a 64 KB prompt", unit: "µs CPU", digits: 0, of: perRequest },
  {
    name: "S4 memory",
    scenario: "S4",
    title: "peak with 64 KB prompts",
    unit: "MB",
    digits: 0,
    of: ({ peakMb }) => peakMb,
  },
  { name: "big CPU", scenario: "big", title: "event of 16 KB", unit: "µs CPU", digits: 1, of: perEvent },
  {
    name: "fleet CPU",
    scenario: "fleet",
    title: "short request before 200 workers",
    unit: "µs CPU",
    digits: 0,
    of: perRequest,
  },
  {
    name: "metrics CPU",
    scenario: "metrics",
    title: "event, /metrics read each second",
    unit: "µs CPU",
    digits: 1,
    of: perEvent,
  },
  {
    name: "burst p99",
    scenario: "burst",
    title: "2,000 connections at once, p99",
    unit: "ms",
    digits: 0,
    of: ({ load }) => (load.wholeUs.count === 0 ? undefined : load.wholeUs.p99 / 1000),
  },
  {
    name: "idle memory",
    scenario: "idle",
    title: "peak with idle streams",
    unit: "MB",
    digits: 0,
    of: ({ peakMb }) => peakMb,
  },
  {
    name: "idle CPU",
    scenario: "idle",
    title: "idle stream, opened and ended",
    unit: "µs CPU",
    digits: 0,
    of: ({ routerCpuSeconds, load }) =>
      load.openStreams === 0 ? undefined : (routerCpuSeconds * 1e6) / load.openStreams,
  },
  {
    name: "late p50",
    scenario: "late",
    title: "failing byte to error frame or status, p50",
    unit: "ms",
    digits: 1,
    absolute: true,
    of: ({ lateMs }) => (lateMs && lateMs.count > 0 ? lateMs.p50 : undefined),
  },
  {
    name: "late p99",
    scenario: "late",
    title: "the same, p99",
    unit: "ms",
    digits: 1,
    absolute: true,
    of: ({ lateMs }) => (lateMs && lateMs.count > 0 ? lateMs.p99 : undefined),
  },
  {
    name: "late never",
    scenario: "late",
    title: "failures the client was not told of within 5 s",
    unit: "%",
    digits: 0,
    absolute: true,
    of: ({ lateMs }) => (lateMs ? (100 * lateMs.never) / Math.max(1, lateMs.never + lateMs.count) : undefined),
  },
  {
    name: "close p50",
    scenario: "hang-ups",
    title: "hang-up to the last upstream close, p50",
    unit: "ms",
    digits: 1,
    absolute: true,
    of: ({ closeMs }) => (closeMs && closeMs.count > 0 ? closeMs.p50 : undefined),
  },
  {
    name: "close p99",
    scenario: "hang-ups",
    title: "the same, p99",
    unit: "ms",
    digits: 1,
    absolute: true,
    of: ({ closeMs }) => (closeMs && closeMs.count > 0 ? closeMs.p99 : undefined),
  },
  {
    name: "close never",
    scenario: "hang-ups",
    title: "hang-ups that left a leg open 5 s later",
    unit: "%",
    digits: 0,
    absolute: true,
    of: ({ closeMs }) => (closeMs ? (100 * closeMs.never) / Math.max(1, closeMs.never + closeMs.count) : undefined),
  },
];
