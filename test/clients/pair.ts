import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import { type SimulatorServer, serveHandler } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine, type SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { Script, SimRequest } from "../../src/simulator/script.ts";
import { readExposition } from "../telemetry/hand-made.ts";

export type Dialect = "sglang" | "vllm" | "trtllm";
export const DIALECTS: readonly Dialect[] = ["sglang", "vllm", "trtllm"];

/** Puts itself between the wire and an engine. */
export type Between = (request: SimRequest, engine: SimulatedEngine) => Promise<Script>;

export interface Pair extends AsyncDisposable {
  base: string;
  server: RouterServer;
  prefill: SimulatedEngine;
  decode: SimulatedEngine;
  /** Gauges that count what is in hand, and both workers' load; all zero when the router is idle. */
  inHand(): Record<string, number>;
  /** Resolves when nothing is in hand any more, at the engines neither; rejects after `ms` with what still is. */
  idle(ms?: number, but?: "blocks"): Promise<void>;
}

export interface PairOptions {
  config?: object;
  /** Further settings of the pool. */
  pool?: object;
  /** Between two tokens, milliseconds. */
  itlMs?: number;
  answerTokens?: number;
  prefill?: Between;
  decode?: Between;
}

const GAUGES = ["requests_in_progress", "queue_length", "drains_open", "worker_in_flight", "worker_queued_tokens"];

/** A prefill and a decode engine on real sockets, and the router in front of them on a real Bun server. All on free ports of loopback. */
export async function startPair(dialect: Dialect, options: PairOptions = {}): Promise<Pair> {
  const { itlMs = 1, answerTokens } = options;
  const timing = { prefillMsPerToken: 0.01, transferMs: 1, itlMs };
  const common = {
    engine: dialect,
    fabric: createFabric(),
    timing,
    ...(answerTokens === undefined ? {} : { answerTokens }),
  };
  const prefill = createSimulatedEngine({ ...common, role: "prefill" });
  const decode = createSimulatedEngine({ ...common, role: "decode" });
  const prefillServer = await serve(prefill, options.prefill);
  const decodeServer = await serve(decode, options.decode);
  const router = createBunRouter({
    config: {
      listen: { host: "127.0.0.1", port: 0 },
      models: [
        {
          id: "demo-model",
          pools: [
            {
              name: "p",
              engine: dialect,
              ...options.pool,
              prefill: [{ name: "p1", url: prefillServer.url }],
              decode: [{ name: "d1", url: decodeServer.url }],
            },
          ],
        },
      ],
      health: { intervalMs: 0 },
      ...options.config,
    },
  });
  const server = serveBun(router);
  const base = `http://127.0.0.1:${server.port}`;
  return { base, server, prefill, decode, inHand, idle, [Symbol.asyncDispose]: dispose };

  function inHand(): Record<string, number> {
    const { samples } = readExposition(router.telemetry.metrics.render());
    const held: Record<string, number> = {
      active: router.active(),
      prefill: prefill.inFlight,
      decode: decode.inFlight,
      blocks: prefill.side?.heldGrants ?? 0,
      rooms: prefill.side?.openRooms ?? 0,
    };
    for (const gauge of GAUGES) {
      held[gauge] = samples
        .filter(({ name }) => name === `prefill_router_${gauge}`)
        .reduce((sum, { value }) => sum + value, 0);
    }
    const pools = router.services.fleet.models().flatMap((model) => model.pools);
    const workers = pools.flatMap((pool) => [...pool.prefill, ...pool.decode]);
    held.load = workers.reduce((sum, { load }) => sum + load.requests + load.tokens, 0);
    return held;
  }

  async function idle(ms = 2_000, but?: "blocks"): Promise<void> {
    const end = performance.now() + ms;
    while (Object.entries(inHand()).some(([name, count]) => count !== 0 && name !== but)) {
      if (performance.now() > end) throw new Error(`Still in hand: ${JSON.stringify(inHand())}`);
      await sleep(5);
    }
  }

  async function dispose(): Promise<void> {
    await router.shutdown(0);
    await server.stop(0);
    await Promise.all([prefillServer.close(), decodeServer.close()]);
  }
}

function serve(engine: SimulatedEngine, between: Between | undefined): Promise<SimulatorServer> {
  return serveHandler(between === undefined ? engine.handle : (request) => between(request, engine));
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function postChat(base: string, body: object | string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${base}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify({ model: "demo-model", ...body }),
  });
}

export function user(content: string): { role: "user"; content: string }[] {
  return [{ role: "user", content }];
}
