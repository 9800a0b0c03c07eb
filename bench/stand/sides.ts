import type { EngineGroup } from "./protocol.ts";

/** Where everything listens; the router under test has a port of its own. */
export const ROUTER_PORT = 18_000;

/** Engines behind a router: one split pool of a dialect, or engines that do both. */
export type Side = "whole" | "sglang" | "vllm" | "sglang-fleet" | "whole-fleet";

const FLEET_HALF = 100;

function range(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => first + index);
}

export const GROUPS: Record<Side, readonly EngineGroup[]> = {
  whole: [{ name: "whole", dialect: "sglang", role: "aggregated", ports: [19_001, 19_002] }],
  sglang: [
    { name: "sglang-prefill", dialect: "sglang", role: "prefill", ports: [19_011, 19_012] },
    { name: "sglang-decode", dialect: "sglang", role: "decode", ports: [19_021, 19_022] },
  ],
  vllm: [
    { name: "vllm-prefill", dialect: "vllm", role: "prefill", ports: [19_031, 19_032] },
    { name: "vllm-decode", dialect: "vllm", role: "decode", ports: [19_041, 19_042] },
  ],
  "sglang-fleet": [
    { name: "fleet-prefill", dialect: "sglang", role: "prefill", ports: range(20_000, FLEET_HALF) },
    { name: "fleet-decode", dialect: "sglang", role: "decode", ports: range(20_200, FLEET_HALF) },
  ],
  "whole-fleet": [{ name: "fleet-whole", dialect: "sglang", role: "aggregated", ports: range(20_400, 2 * FLEET_HALF) }],
};

export function urlsOf(side: Side, role: EngineGroup["role"]): string[] {
  return GROUPS[side]
    .filter((group) => group.role === role)
    .flatMap(({ ports }) => ports.map((port) => `http://127.0.0.1:${port}`));
}
