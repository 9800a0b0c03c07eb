import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import { bunStream } from "../../src/runtime/bun-stream.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import type { Worker } from "../../src/workers/worker.ts";
import type { ScriptedEngine } from "./engine.ts";
import type { Mode } from "./prefill-answers.ts";

export interface Served {
  mode: Mode;
  prefill?: readonly string[];
  decode: readonly string[];
  /** Members of the pool, and top-level ones. */
  pool?: object;
  config?: object;
}

/** A router on a port of its own: one model `m`, one pool, no health checks, no retries unless asked for. */
export function serveRouter({ mode, prefill = [], decode, pool = {}, config = {} }: Served): RouterServer {
  const urls = (list: readonly string[]) => list.map((url) => ({ url }));
  const workers =
    mode === "aggregated"
      ? { engine: "openai", workers: urls(decode) }
      : { engine: mode, prefill: urls(prefill), decode: urls(decode) };
  const router = createBunRouter({
    clientStream: bunStream,
    config: {
      listen: { port: 0 },
      models: [{ id: "m", pools: [{ name: "default", ...workers, ...pool }] }],
      policy: { prefill: "round-robin", decode: "round-robin" },
      retries: { maxRetries: 0 },
      breaker: { failures: 50 },
      health: { intervalMs: 0 },
      log: { level: "silent" },
      ...config,
    },
  });
  return serveBun(router);
}

export function workersOf({ router }: Pick<RouterServer, "router">): Worker[] {
  return router.services.fleet
    .models()
    .flatMap(({ pools }) => pools.flatMap((pool) => [...pool.prefill, ...pool.decode, ...pool.workers]));
}

/** Waits for no socket in use, no load, nothing in progress. Throws what is left after `ms`. */
export async function atRest(server: RouterServer, engines: readonly ScriptedEngine[], ms: number): Promise<void> {
  await eventually(ms, () => {
    const open = engines.reduce((sum, engine) => sum + engine.open, 0);
    const load = workersOf(server).reduce((sum, worker) => sum + worker.load.requests, 0);
    const active = server.router.active();
    return open + load + active === 0 ? "" : `left behind: ${open} open exchanges, load ${load}, ${active} in progress`;
  });
}

/** Looks again until there is nothing to say. Throws what was said last when `ms` have passed. Resolves with how long it took. */
export async function eventually(ms: number, missing: () => string): Promise<number> {
  const from = performance.now();
  for (;;) {
    const said = missing();
    const spent = performance.now() - from;
    if (said === "") return spent;
    if (spent > ms) throw new Error(`${said} after ${Math.round(spent)} ms`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export async function stopAll(server: RouterServer, engines: readonly ScriptedEngine[]): Promise<void> {
  await Promise.all([server.stop(0), ...engines.map((engine) => engine.close())]);
}
