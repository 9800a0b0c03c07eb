import type { EngineGroup } from "./protocol.ts";

/** Everything listens from here on; another base lets two benches stand beside each other (and spoil each other's figures). */
const BASE = Number(process.env.BENCH_BASE_PORT ?? 18_000);
export const ROUTER_PORT = BASE;

/** Engines behind a router: one split pool of a dialect, or engines that do both. */
export type Side = "whole" | "sglang" | "vllm" | "sglang-fleet" | "whole-fleet";

const FLEET_HALF = 100;

function range(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

export const GROUPS: Record<Side, readonly EngineGroup[]> = {
  whole: [{ name: "whole", dialect: "sglang", role: "aggregated", ports: range(BASE + 1, 2) }],
  sglang: [
    { name: "sglang-prefill", dialect: "sglang", role: "prefill", ports: range(BASE + 11, 2) },
    { name: "sglang-decode", dialect: "sglang", role: "decode", ports: range(BASE + 21, 2) },
  ],
  vllm: [
    { name: "vllm-prefill", dialect: "vllm", role: "prefill", ports: range(BASE + 31, 2) },
    { name: "vllm-decode", dialect: "vllm", role: "decode", ports: range(BASE + 41, 2) },
  ],
  "sglang-fleet": [
    { name: "fleet-prefill", dialect: "sglang", role: "prefill", ports: range(BASE + 1_000, FLEET_HALF) },
    { name: "fleet-decode", dialect: "sglang", role: "decode", ports: range(BASE + 1_200, FLEET_HALF) },
  ],
  "whole-fleet": [
    { name: "fleet-whole", dialect: "sglang", role: "aggregated", ports: range(BASE + 1_400, 2 * FLEET_HALF) },
  ],
};

export function urlsOf(side: Side, role: EngineGroup["role"]): string[] {
  return GROUPS[side]
    .filter((group) => group.role === role)
    .flatMap(({ ports }) => ports.map((port) => `http://127.0.0.1:${port}`));
}
