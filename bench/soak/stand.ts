import type { PrefillRouter } from "../../src/create-router.ts";
import { type BunServer, createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import { type SimulatorServer, serveSimulator } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { SimulatedEngineOptions } from "../../src/simulator/options.ts";

/** Models of the stand: one per way of splitting, one that tears down late, and one whose answers are megabytes. */
export const MODELS = ["sglang", "sglang-deferred", "vllm", "trtllm", "whole"] as const;
export type ModelId = (typeof MODELS)[number];

const WORKERS = 2;
const TIMING = { prefillMsPerToken: 1, itlMs: 4, transferMs: 2 };
/** Tokens of the long answers: more than all socket buffers on their way hold, so that a client that stops reading is felt. */
const LONG_ANSWER = 40_000;

/** Short limits: what they end is part of the traffic. */
export const LIMITS = { prefillMs: 4_000, firstTokenMs: 4_000, idleMs: 1_500, totalMs: 8_000, tailMs: 2_000 };

export interface Stand {
  router: PrefillRouter;
  port: number;
  engines: readonly SimulatedEngine[];
  close(): Promise<void>;
}

/** Simulated engines of three makes on real sockets, and a router in front of them, all in this process. */
export async function openStand(): Promise<Stand> {
  const engines: SimulatedEngine[] = [];
  const servers: SimulatorServer[] = [];
  const open = async (options: SimulatedEngineOptions): Promise<string> => {
    const engine = createSimulatedEngine(options);
    const server = await serveSimulator(engine);
    engines.push(engine);
    servers.push(server);
    return server.url;
  };

  const pools = [];
  for (const model of MODELS) {
    if (model === "whole") {
      const url = await open({
        engine: "vllm",
        role: "aggregated",
        model,
        answerTokens: LONG_ANSWER,
        timing: { itlMs: 0 },
      });
      pools.push({ id: model, pools: [{ name: model, engine: "vllm", workers: [{ url, name: `${model}-w` }] }] });
      continue;
    }
    const engine = model === "sglang-deferred" ? "sglang" : model;
    const common = { engine, model, fabric: createFabric(), timing: TIMING } as const;
    const prefill = [];
    const decode = [];
    for (let index = 1; index <= WORKERS; index++) {
      const sidePort = 20_000 + engines.length;
      const url = await open({ ...common, role: "prefill", sidePort });
      prefill.push({ url, name: `${model}-p${index}`, ...(engine === "sglang" ? { bootstrapPort: sidePort } : {}) });
      decode.push({ url: await open({ ...common, role: "decode" }), name: `${model}-d${index}` });
    }
    const cancel = model === "sglang-deferred" ? "deferred" : "anytime";
    pools.push({ id: model, pools: [{ name: model, engine, cancel, prefill, decode }] });
  }

  const router = createBunRouter({
    config: {
      listen: { port: 0 },
      models: pools,
      timeouts: { ...LIMITS, settleMs: 200 },
      // Faults are the traffic here; a breaker would turn most of it into the same 503.
      breaker: { enabled: false },
      // Each probe would keep a connection open that is nobody's leak.
      health: { intervalMs: 0 },
      log: { level: "error" },
    },
    sink: console.error,
  });
  const server: BunServer = serveBun(router);
  return {
    router,
    port: server.port,
    engines,
    async close() {
      await server.stop(1_000);
      await Promise.all(servers.map((each) => each.close()));
    },
  };
}
