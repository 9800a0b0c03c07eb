import { join } from "node:path";
import { MODEL } from "../stand/engine/replies.ts";
import { EngineFleet } from "../stand/engines.ts";
import { PLAIN_LOAD, runLoad } from "../stand/load.ts";
import { cpuSeconds } from "../stand/machine.ts";
import type { EngineGroup, LoadPlan, LoadResult, Shape } from "../stand/protocol.ts";
import { RouterProcess } from "../stand/router-process.ts";
import { ROUTER_PORT } from "../stand/sides.ts";
import type { Held } from "./heap.ts";

const FIRST_PORT = ROUTER_PORT + 2_000;
const HEAP_PORT = ROUTER_PORT + 1;
const SHAPE: Shape = { tokens: 16, itlMs: 0, chunkBytes: 5 };

function group(role: "prefill" | "decode", first: number, count: number): EngineGroup {
  const ports = Array.from({ length: count }, (_, index) => first + index);
  return { name: role, dialect: "sglang", role, ports };
}

function urls({ ports }: EngineGroup): string[] {
  return ports.map((port) => `http://127.0.0.1:${port}`);
}

/** A router before so many workers, half of them prefill. Whoever opens it closes it. */
export class ScaleStand {
  readonly router: RouterProcess;
  readonly #fleet: EngineFleet;

  private constructor(router: RouterProcess, fleet: EngineFleet) {
    this.router = router;
    this.#fleet = fleet;
  }

  static async open(workers: number, log: string): Promise<ScaleStand> {
    const half = Math.max(1, workers >> 1);
    const prefill = group("prefill", FIRST_PORT, half);
    const decode = group("decode", FIRST_PORT + half, half);
    const config = {
      listen: { host: "127.0.0.1", port: ROUTER_PORT },
      models: [
        {
          id: MODEL,
          pools: [
            {
              name: "bench",
              engine: "sglang",
              prefill: urls(prefill).map((url) => ({ url, bootstrapPort: 8998 })),
              decode: urls(decode).map((url) => ({ url })),
            },
          ],
        },
      ],
      log: { level: "warn" },
    };
    const fleet = await EngineFleet.start([prefill, decode]);
    try {
      await fleet.shape(SHAPE);
      const command = [process.execPath, join(import.meta.dir, "heap.ts")];
      const env = { ROUTER_CONFIG: JSON.stringify(config), HEAP_PORT: String(HEAP_PORT) };
      return new ScaleStand(await RouterProcess.start({ command, env }, ROUTER_PORT, log), fleet);
    } catch (error) {
      await fleet.stop();
      throw error;
    }
  }

  /** Loads it and gives the router's CPU microseconds per request too. */
  async load(plan: Partial<LoadPlan>): Promise<LoadResult & { cpuUs: number }> {
    const before = cpuSeconds(this.router.pids());
    const result = await runLoad({ ...PLAIN_LOAD, clients: 32, ...plan, port: ROUTER_PORT });
    const cpuUs = ((cpuSeconds(this.router.pids()) - before) * 1e6) / Math.max(1, result.requests);
    return { ...result, cpuUs };
  }

  async held(): Promise<Held> {
    return (await (await fetch(`http://127.0.0.1:${HEAP_PORT}/`)).json()) as Held;
  }

  async close(): Promise<void> {
    await this.router.stop();
    await this.#fleet.stop();
  }
}
