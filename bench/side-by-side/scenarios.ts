import type { LoadPlan, Shape } from "../stand/protocol.ts";

/**
 * How routers are started: as always; with circuit breakers off, which would rightly take engines out that fail in every third request;
 * before a fleet of 200 workers; or with room for as many streams as the machine bears.
 */
export type Setup = "plain" | "failing" | "fleet" | "many streams";
export const SETUPS: readonly Setup[] = ["plain", "failing", "fleet", "many streams"];

export interface Scenario {
  name: string;
  title: string;
  setup: Setup;
  shape: Shape;
  plan: Partial<LoadPlan>;
  /** Only splits take part: the others have no prefill that could fail. */
  splitOnly?: boolean;
  /** Streams stay silent until all are open; then they are told to end. */
  idle?: boolean;
  /** `/metrics` is read once a second. */
  scrapes?: boolean;
}

const SHORT: Shape = { tokens: 16, itlMs: 0, chunkBytes: 5 };
const LONG: Shape = { tokens: 256, itlMs: 0, chunkBytes: 5 };
/** A stream has its tokens, a role event and a finish event. */
const FRAMING = 2;
const FULL_SPEED = { stream: true, clients: 16, maxTokens: LONG.tokens, wantEvents: LONG.tokens + FRAMING } as const;

/** Milliseconds of load where a scenario does not say otherwise. */
export const DURATION_MS = { full: 3_000, quick: 1_500 };
export const IDLE_STREAMS = 10_000;

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "S0",
    title: "one client, stream of 16 tokens",
    setup: "plain",
    shape: SHORT,
    plan: { stream: true, clients: 1, wantEvents: SHORT.tokens + FRAMING },
  },
  { name: "S1", title: "short buffered chat, 32 clients", setup: "plain", shape: SHORT, plan: { clients: 32 } },
  {
    name: "S2",
    title: "streams of 256 tokens at full speed, 16 clients",
    setup: "plain",
    shape: LONG,
    plan: FULL_SPEED,
  },
  {
    name: "S3",
    title: "1,000 slow streams, 40 tokens at 50 ms",
    setup: "plain",
    shape: { tokens: 40, itlMs: 50, chunkBytes: 5 },
    plan: {
      stream: true,
      clients: 1_000,
      requests: 2_000,
      durationMs: 8_000,
      rampMs: 1_000,
      maxTokens: 40,
      wantEvents: 40 + FRAMING,
    },
  },
  {
    name: "S4",
    title: "64 KB prompt, buffered, 16 clients",
    setup: "plain",
    shape: SHORT,
    plan: { clients: 16, promptBytes: 65_536 },
  },
  {
    name: "late",
    title: "prefill fails after decode has begun: 16 such clients beside S2",
    setup: "failing",
    splitOnly: true,
    shape: LONG,
    plan: { ...FULL_SPEED, extra: { kind: "f", clients: 16 } },
  },
  {
    name: "hang-ups",
    title: "half of the clients hang up within a stream: 16 beside 16 of S2",
    setup: "plain",
    shape: LONG,
    plan: { ...FULL_SPEED, extra: { kind: "h", clients: 16 } },
  },
  {
    name: "big",
    title: "events of 16 KB, 64 a stream, 8 clients",
    setup: "plain",
    shape: { tokens: 64, itlMs: 0, chunkBytes: 16_384 },
    plan: { stream: true, clients: 8, wantEvents: 64 + FRAMING },
  },
  {
    name: "metrics",
    title: "S2 with /metrics read once a second",
    setup: "plain",
    shape: LONG,
    plan: FULL_SPEED,
    scrapes: true,
  },
  {
    name: "burst",
    title: "2,000 connections at once, one request each",
    setup: "plain",
    shape: SHORT,
    plan: { clients: 2_000, requests: 2_000, durationMs: 20_000, timeoutMs: 20_000, close: true },
  },
  { name: "fleet", title: "S1 before 200 workers", setup: "fleet", shape: SHORT, plan: { clients: 32 } },
  {
    name: "idle",
    title: "10,000 streams that are silent after their first token",
    setup: "many streams",
    shape: SHORT,
    idle: true,
    plan: { stream: true, clients: 0, rampMs: 10_000, durationMs: 1_000, timeoutMs: 90_000 },
  },
];
