import { createRouter, type PrefillRouter } from "../../src/create-router.ts";
import type { Connector } from "../../src/engines/dialect.ts";
import type { Transport } from "../../src/legs/transport.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { respond } from "../../src/simulator/play-response.ts";
import type { Api } from "../../src/sse/api.ts";

export const paths: Readonly<Record<Api, string>> = {
  chat: "/v1/chat/completions",
  completions: "/v1/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
  generate: "/generate",
};

export interface Split {
  name: string;
  engine: "sglang" | "vllm" | "trtllm";
  connector?: Connector;
}

export const splits: readonly Split[] = [
  { name: "SGLang", engine: "sglang" },
  { name: "vLLM, NIXL", engine: "vllm", connector: "nixl" },
  { name: "vLLM, NIXL push", engine: "vllm", connector: "nixl-push" },
  { name: "vLLM, Mooncake", engine: "vllm", connector: "mooncake" },
  { name: "TensorRT-LLM", engine: "trtllm" },
];

export interface Pair {
  router: PrefillRouter;
  prefill: SimulatedEngine;
  decode: SimulatedEngine;
  aggregated: SimulatedEngine;
  /** Both answers to one body: the aggregated engine's, asked directly, and the router's. */
  ask(api: Api, direct: string, routed: string): Promise<{ direct: Response; routed: Response }>;
}

const INSTANT = { prefillMsPerToken: 0, itlMs: 0, transferMs: 0, dialMs: 0 };

/** A split, and one engine beside it that does both parts itself. In-process, without time. */
export function pairOf({ engine, connector }: Split): Pair {
  const fabric = createFabric();
  const common = {
    engine,
    fabric,
    timing: INSTANT,
    model: "demo-model",
    adapters: ["my-lora"],
    ...(connector === undefined ? {} : { connector }),
  };
  const prefill = createSimulatedEngine({ ...common, role: "prefill", engineId: "prefill-1" });
  const decode = createSimulatedEngine({ ...common, role: "decode" });
  const aggregated = createSimulatedEngine({ ...common, role: "aggregated" });
  const bootstrap = { ...prefill, dead: false, handle: prefill.handleSide! };
  const engines: Readonly<Record<string, SimulatedEngine>> = {
    "p.test": prefill,
    "d.test": decode,
    "p.test:8998": bootstrap,
  };
  const transport: Transport = {
    fetch: (url, request) => respond(engines[new URL(url).host]!)(new Request(url, request as RequestInit)),
  };
  const push = { engineId: "prefill-1", kvHost: "127.0.0.1", kvPort: prefill.sidePort };
  const router = createRouter({
    config: {
      models: [
        {
          id: "demo-model",
          aliases: ["alias"],
          adapters: ["my-lora"],
          pools: [
            {
              engine,
              ...(connector === undefined ? {} : { connector }),
              prefill: [{ url: "http://p.test", ...(connector === "nixl-push" ? push : {}) }],
              decode: [{ url: "http://d.test" }],
            },
          ],
        },
      ],
      retries: { maxRetries: 0 },
      health: { intervalMs: 0 },
    },
    transport,
  });
  return { router, prefill, decode, aggregated, ask };

  async function ask(api: Api, direct: string, routed: string): Promise<{ direct: Response; routed: Response }> {
    const post = (host: string, body: string) =>
      new Request(host + paths[api], { method: "POST", headers: { "content-type": "application/json" }, body });
    return {
      direct: await respond(aggregated)(post("http://w.test", direct)),
      routed: await router.fetch(post("http://router.test", routed)),
    };
  }
}
