import { createBunRouter, serveBun } from "../../src/runtime/bun.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import { type SimulatorServer, serveSimulator } from "../../src/runtime/simulator-tcp.ts";
import { createSimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";

export const MODEL = "demo-model";
export const ADMIN = "the-admin-key";
/** Slow enough that a request is seen while it runs. */
const TIMING = { prefillMsPerToken: 4, itlMs: 20, transferMs: 4 };
/** Bootstrap ports go by number. */
const FIRST_SIDE_PORT = 9_000;

/** A router on a real socket with simulated engines behind it, as the dashboard's viewer would have it. */
export class Stage {
  readonly engines = new Map<string, SimulatorServer>();
  readonly #server: RouterServer;

  private constructor(server: RouterServer, engines: Map<string, SimulatorServer>) {
    this.#server = server;
    this.engines = engines;
  }

  /** `firstSidePort`: stages that run at the same time need their own. */
  static async start(config: Record<string, unknown> = {}, firstSidePort = FIRST_SIDE_PORT): Promise<Stage> {
    const fabric = createFabric();
    const engines = new Map<string, SimulatorServer>();
    const pool: Record<"prefill" | "decode", Record<string, unknown>[]> = { prefill: [], decode: [] };
    for (const role of ["prefill", "decode"] as const) {
      for (const index of [1, 2]) {
        const sidePort = firstSidePort + index;
        const common = { engine: "sglang", model: MODEL, fabric, timing: TIMING, role, answerTokens: 400 } as const;
        const engine = await serveSimulator(
          createSimulatedEngine(role === "prefill" ? { ...common, sidePort } : common),
        );
        const name = `${role}-${index}`;
        engines.set(name, engine);
        pool[role].push({ name, url: engine.url, ...(role === "prefill" && { bootstrapPort: sidePort }) });
      }
    }
    const router = createBunRouter({
      config: {
        listen: { host: "127.0.0.1", port: 0 },
        models: [{ id: MODEL, aliases: ["gpt-x"], pools: [{ name: "eu-1", engine: "sglang", ...pool }] }],
        policy: { prefill: "round-robin", decode: "round-robin" },
        health: { intervalMs: 400, timeoutMs: 400 },
        breaker: { failures: 4 },
        retries: { maxRetries: 0 },
        ...config,
      },
      env: { ADMIN },
    });
    return new Stage(serveBun(router), engines);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/`;
  }

  /** One streamed answer of `tokens` tokens, read to its end; with faults in the simulator's notation, by leg. Resolves with the text. */
  async ask(id: string, tokens: number, faults: { prefill?: string; decode?: string } = {}): Promise<string> {
    const response = await fetch(`${this.url}v1/chat/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-request-id": id,
        ...(faults.prefill !== undefined && { "x-sim-prefill": faults.prefill }),
        ...(faults.decode !== undefined && { "x-sim-decode": faults.decode }),
      },
      body: JSON.stringify({
        model: MODEL,
        stream: true,
        max_tokens: tokens,
        messages: [{ role: "user", content: `What runs under the bridge? ${id}` }],
      }),
    });
    return response.text();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.router.shutdown(0);
    await this.#server.stop(200);
    for (const engine of this.engines.values()) await engine.close();
  }
}
