import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { MODEL } from "../stand/engine/replies.ts";
import type { Command } from "../stand/router-process.ts";
import { ROUTER_PORT, type Side, urlsOf } from "../stand/sides.ts";
import { writeHaproxy, writeNginx } from "./proxies.ts";
import type { Setup } from "./scenarios.ts";

const BOOTSTRAP_PORT = 8998;

export type EntrantName =
  | "direct"
  | "nginx"
  | "haproxy"
  | "naive-split"
  | "bare-split"
  | "ours"
  | "ours-vllm"
  | "sglang-router"
  | "smg"
  | "vllm-router";

export interface Place {
  /** For configuration files. */
  folder: string;
  /** Where ours is started from. */
  checkout: string;
  /** How many streams will be open at once in the setup for many. */
  streams: number;
}

/** One that takes part. "direct" has no process: the load goes to the engine itself. */
export interface Entrant {
  name: EntrantName;
  /** A plain proxy before engines that do both, the yardstick, ours, or somebody else's split. */
  kind: "floor" | "yardstick" | "ours" | "peer";
  engines: "whole" | "sglang" | "vllm";
  executable?: string;
  /** Takes part only when it is named. */
  onlyNamed?: boolean;
  setups: readonly Setup[];
  command?(executable: string, setup: Setup, place: Place): Command;
  /** Path of Prometheus metrics on the same port. */
  metrics?: string;
}

export function sideOf({ engines }: Entrant, setup: Setup): Side {
  if (setup !== "fleet" || engines === "vllm") return engines;
  return engines === "whole" ? "whole-fleet" : "sglang-fleet";
}

/** Looks in the folder BENCH_PEERS names, then in PATH. */
export function findExecutable(name: string): string | undefined {
  const { BENCH_PEERS, PATH = "" } = process.env;
  return Bun.which(name, { PATH: BENCH_PEERS === undefined ? PATH : `${BENCH_PEERS}${delimiter}${PATH}` }) ?? undefined;
}

/** As a user starts it, with every protection that is on by default; only the log is at "warn", as it is for the peers. */
function ours(entrant: Entrant, setup: Setup, { folder, checkout, streams }: Place): Command {
  const side = sideOf(entrant, setup);
  const sglang = entrant.engines === "sglang";
  const config = {
    listen: { host: "127.0.0.1", port: ROUTER_PORT },
    models: [
      {
        id: MODEL,
        pools: [
          {
            name: "bench",
            engine: entrant.engines,
            prefill: urlsOf(side, "prefill").map((url) => (sglang ? { url, bootstrapPort: BOOTSTRAP_PORT } : { url })),
            decode: urlsOf(side, "decode").map((url) => ({ url })),
          },
        ],
      },
    ],
    log: { level: "warn" },
    ...(setup === "failing" ? { breaker: { enabled: false } } : {}),
    ...(setup === "many streams" ? { limits: { concurrency: streams + 100 } } : {}),
  };
  const file = join(folder, `${entrant.name}.json`);
  writeFileSync(file, JSON.stringify(config));
  return { command: [process.execPath, "src/cli.ts", "serve", "--config", file], cwd: checkout };
}

function splitFlags(side: Side, bootstrap: boolean): string[] {
  return [
    ...urlsOf(side, "prefill").flatMap((url) => ["--prefill", url, ...(bootstrap ? [String(BOOTSTRAP_PORT)] : [])]),
    ...urlsOf(side, "decode").flatMap((url) => ["--decode", url]),
  ];
}

const PEER_FLAGS = ["--host", "127.0.0.1", "--port", String(ROUTER_PORT), "--worker-startup-check-interval", "1"];

/** sglang-router and its successor take the same flags; prefix-aware choice is their default too. */
function sglangPeer(entrant: Entrant, executable: string, setup: Setup): Command {
  const flags = ["launch", ...PEER_FLAGS, "--log-level", "warn", "--pd-disaggregation"];
  if (setup === "failing") flags.push("--disable-circuit-breaker");
  return { command: [executable, ...flags, ...splitFlags(sideOf(entrant, setup), true)] };
}

function yardstick(entrant: Entrant, setup: Setup): Command {
  const side = sideOf(entrant, setup);
  const env = {
    PREFILL: urlsOf(side, "prefill").join(),
    DECODE: urlsOf(side, "decode").join(),
    PORT: String(ROUTER_PORT),
    BUN_CONFIG_MAX_HTTP_REQUESTS: "65000",
  };
  return { command: [process.execPath, join(import.meta.dir, `${entrant.name}.ts`)], env };
}

export const ENTRANTS: readonly Entrant[] = [
  { name: "direct", kind: "floor", engines: "whole", setups: ["plain"] },
  {
    name: "nginx",
    kind: "floor",
    engines: "whole",
    executable: "nginx",
    setups: ["plain", "failing", "fleet", "many streams"],
    command(executable, setup, { folder }) {
      return {
        command: [executable, "-c", writeNginx(folder, ROUTER_PORT, urlsOf(sideOf(this, setup), "aggregated"))],
      };
    },
  },
  {
    name: "haproxy",
    kind: "floor",
    engines: "whole",
    executable: "haproxy",
    setups: ["plain", "fleet"],
    command(executable, setup, { folder }) {
      return {
        command: [executable, "-f", writeHaproxy(folder, ROUTER_PORT, urlsOf(sideOf(this, setup), "aggregated"))],
      };
    },
  },
  {
    name: "naive-split",
    kind: "yardstick",
    engines: "sglang",
    setups: ["plain", "failing", "fleet", "many streams"],
    command(_executable, setup) {
      return yardstick(this, setup);
    },
  },
  {
    name: "bare-split",
    kind: "yardstick",
    engines: "sglang",
    onlyNamed: true,
    setups: ["plain", "many streams"],
    command(_executable, setup) {
      return yardstick(this, setup);
    },
  },
  {
    name: "ours",
    kind: "ours",
    engines: "sglang",
    setups: ["plain", "failing", "fleet", "many streams"],
    metrics: "/metrics",
    command(_executable, setup, place) {
      return ours(this, setup, place);
    },
  },
  {
    name: "ours-vllm",
    kind: "ours",
    engines: "vllm",
    setups: ["plain", "failing"],
    metrics: "/metrics",
    command(_executable, setup, place) {
      return ours(this, setup, place);
    },
  },
  {
    name: "sglang-router",
    kind: "peer",
    engines: "sglang",
    executable: "sglang-router",
    setups: ["plain", "failing", "fleet", "many streams"],
    command(executable, setup) {
      return sglangPeer(this, executable, setup);
    },
  },
  {
    name: "smg",
    kind: "peer",
    engines: "sglang",
    executable: "smg",
    setups: ["plain", "failing", "fleet", "many streams"],
    command(executable, setup) {
      return sglangPeer(this, executable, setup);
    },
  },
  {
    name: "vllm-router",
    kind: "peer",
    engines: "vllm",
    executable: "vllm-router",
    setups: ["plain", "failing"],
    command(executable, setup) {
      const flags = [...PEER_FLAGS, "--log-level", "warning", "--vllm-pd-disaggregation", "--kv-connector", "nixl"];
      if (setup === "failing") flags.push("--disable-circuit-breaker");
      return { command: [executable, ...flags, ...splitFlags(sideOf(this, setup), false)] };
    },
  },
];

export interface Present {
  entrant: Entrant;
  executable: string;
}

/** Where both packages share an environment, the command that was installed last has the name. */
function isSglangRouter(script: string): boolean {
  return readFileSync(script, "latin1").slice(0, 4_096).includes("sglang_router");
}

/** Those that can take part here, and a plain sentence for each that cannot. */
export function present(only: readonly string[] | undefined): { here: Present[]; skipped: string[] } {
  const here: Present[] = [];
  const skipped: string[] = [];
  for (const name of only ?? []) {
    if (!ENTRANTS.some((entrant) => entrant.name === name)) throw new Error(`There is no router "${name}"`);
  }
  for (const entrant of ENTRANTS) {
    if (only === undefined ? entrant.onlyNamed === true : !only.includes(entrant.name)) continue;
    const executable = entrant.executable === undefined ? "" : findExecutable(entrant.executable);
    if (entrant.name === "smg" && executable !== undefined && isSglangRouter(executable)) {
      skipped.push(`smg is skipped: ${executable} is a second name of sglang-router, whose package installs it`);
    } else if (executable === undefined || (executable !== "" && !existsSync(executable))) {
      skipped.push(
        `${entrant.name} is skipped: no "${entrant.executable}" in PATH or in the folder that BENCH_PEERS names`,
      );
    } else here.push({ entrant, executable });
  }
  return { here, skipped };
}
