import { createRouter, type PrefillRouter } from "../../src/create-router.ts";
import type { Transport } from "../../src/legs/transport.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { Timing } from "../../src/simulator/options.ts";
import { respond } from "../../src/simulator/play-response.ts";

export type SplitEngine = "sglang" | "vllm" | "trtllm";

export interface Stand {
  router: PrefillRouter;
  prefill: SimulatedEngine;
  decode: SimulatedEngine;
  /** Does both parts itself; the router knows it only if asked to. */
  aggregated: SimulatedEngine;
  post(path: string, body: unknown, signal?: AbortSignal): Promise<Response>;
}

export interface StandOptions {
  timing?: Partial<Timing>;
  /** Extra members of the configuration. */
  config?: Record<string, unknown>;
  /** The pool has the aggregated engine too. */
  whole?: boolean;
}

const INSTANT: Partial<Timing> = { prefillMsPerToken: 0, itlMs: 0, transferMs: 0, dialMs: 0 };

/** A router over one simulated pair, in-process: no sockets, no probes, no retries unless the test asks for them. */
export function stand(engine: SplitEngine, { timing, config, whole }: StandOptions = {}): Stand {
  const fabric = createFabric();
  const common = { engine, fabric, timing: { ...INSTANT, ...timing }, model: "demo-model" };
  const engines: Record<string, SimulatedEngine> = {
    "p.test": createSimulatedEngine({ ...common, role: "prefill" }),
    "d.test": createSimulatedEngine({ ...common, role: "decode" }),
    "w.test": createSimulatedEngine({ ...common, role: "aggregated" }),
  };
  const transport: Transport = {
    fetch: (url, request) => respond(engines[new URL(url).hostname]!)(new Request(url, request as RequestInit)),
  };
  const pool = {
    name: "default",
    engine,
    prefill: [{ url: "http://p.test", bootstrapPort: 8998 }],
    decode: [{ url: "http://d.test" }],
    ...(whole ? { workers: [{ url: "http://w.test" }] } : {}),
  };
  const router = createRouter({
    config: {
      models: [{ id: "demo-model", aliases: ["alias"], pools: [pool] }],
      retries: { maxRetries: 0 },
      health: { intervalMs: 0 },
      breaker: { enabled: false },
      ...config,
    },
    transport,
  });
  return {
    router,
    prefill: engines["p.test"]!,
    decode: engines["d.test"]!,
    aggregated: engines["w.test"]!,
    post: async (path, body, signal) =>
      router.fetch(
        new Request(`http://router.test${path}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: typeof body === "string" ? body : JSON.stringify(body),
          ...(signal === undefined ? {} : { signal }),
        }),
      ),
  };
}

/** Waits until a thing is so, at most a second. */
export async function until(met: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !met(); i++) await new Promise<void>((resolve) => setTimeout(resolve, 5));
}

/** JSON whose shape the test itself vouches for. */
// biome-ignore lint/suspicious/noExplicitAny: answers are walked by path in assertions
export type Json = any;

/** The data of a finished stream's events. */
export function eventsOf(text: string): string[] {
  return text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => event.replace(/^data: /, ""));
}
