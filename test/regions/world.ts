import { createRouter, type PrefillRouter, type RouterOptions } from "../../src/create-router.ts";
import type { Transport, TransportRequest } from "../../src/legs/transport.ts";
import type { SimulatedEngine } from "../../src/simulator/engine.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { ConnectionBroken, respond } from "../../src/simulator/play-response.ts";
import { ManualClock, settled } from "../manual-clock.ts";
import { makeEngine } from "../simulator/support.ts";

/** Two places in Europe near each other, two far away. */
export const REGIONS = [
  { name: "eu-west", latitude: 53.3, longitude: -6.3 },
  { name: "eu-central", latitude: 50.1, longitude: 8.7 },
  { name: "us-east", latitude: 38.9, longitude: -77.4 },
  { name: "ap-south", latitude: 19.1, longitude: 72.9 },
] as const;

export type RegionName = (typeof REGIONS)[number]["name"];

/** Places of clients, as the header has them. */
export const AT = {
  dublin: "53.3,-6.3",
  frankfurt: "50.1,8.7",
  washington: "38.9,-77.0",
  mumbai: "19.0,72.8",
} as const;

const TIMING = { prefillMsPerToken: 1, itlMs: 20, transferMs: 1 };

/** One region: a pool of two prefill and two decode workers, which can die and come back as a whole. */
class Region {
  readonly engines = new Map<string, SimulatedEngine>();
  up = true;
  #gone = new AbortController();

  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  die(): void {
    this.up = false;
    this.#gone.abort();
    for (const engine of this.engines.values()) engine.restart();
  }

  comeBack(): void {
    this.up = true;
    this.#gone = new AbortController();
  }
}

/** Regions of simulated vLLM pairs, and routers that reach all of them. One clock for everything. */
export class World {
  readonly clock = new ManualClock();
  readonly regions = new Map<string, Region>();
  /** Generation requests per region, as its prefill engines saw them. */
  readonly asked: string[] = [];
  readonly #routers: PrefillRouter[] = [];

  constructor() {
    const fabric = createFabric({ clock: this.clock });
    for (const { name } of REGIONS) {
      const region = new Region();
      this.regions.set(name, region);
      for (const role of ["prefill", "decode"] as const) {
        for (const n of [1, 2]) {
          const host = `${role}-${n}.${name}`;
          const sidePort = 6000 + this.regions.size * 10 + n;
          const options = {
            engine: "vllm",
            role,
            model: "m",
            fabric,
            sidePort,
            timing: TIMING,
            answerTokens: 8,
          } as const;
          region.engines.set(host, makeEngine(options));
        }
      }
    }
  }

  readonly transport: Transport = { fetch: (url, request) => this.#fetch(url, request) };

  pools(names: readonly string[] = REGIONS.map(({ name }) => name)) {
    return names.map((name) => ({
      name,
      engine: "vllm",
      region: name,
      prefill: [1, 2].map((n) => ({ name: `p${n}-${name}`, url: `http://prefill-${n}.${name}:1` })),
      decode: [1, 2].map((n) => ({ name: `d${n}-${name}`, url: `http://decode-${n}.${name}:1` })),
    }));
  }

  router(config: Record<string, unknown> = {}, options: Partial<RouterOptions> = {}): PrefillRouter {
    const router = createRouter({
      config: {
        models: [{ id: "m", pools: this.pools() }],
        regions: REGIONS,
        geoHeader: "x-client-geo",
        auth: { adminKeyEnv: "ADMIN" },
        health: { intervalMs: 0 },
        log: { level: "silent" },
        ...config,
      },
      env: { ADMIN: "admin-key", EU_KEY: "eu-key", ALL_KEY: "all-key", MOON_KEY: "moon-key" },
      clock: this.clock,
      transport: this.transport,
      ...options,
    });
    router.tendsWithRequests = false;
    this.#routers.push(router);
    return router;
  }

  /** Requests in hand over all workers of all routers. */
  load(): number {
    let sum = 0;
    for (const { services } of this.#routers) for (const { load } of services.fleet.workers()) sum += load.requests;
    return sum;
  }

  async #fetch(url: string, request: TransportRequest): Promise<Response> {
    const { hostname, pathname } = new URL(url);
    const name = hostname.slice(hostname.indexOf(".") + 1);
    const region = this.regions.get(name);
    const engine = region?.engines.get(hostname);
    await Promise.resolve();
    if (region === undefined || engine === undefined || !region.up) throw new ConnectionBroken("ECONNREFUSED");
    if (pathname.startsWith("/v1/chat") && hostname.startsWith("prefill")) this.asked.push(name);
    const { gone } = region;
    const broken = new Promise<never>((_, reject) => {
      gone.addEventListener("abort", () => reject(new ConnectionBroken("ECONNRESET")), { once: true });
    });
    broken.catch(ignore);
    const response = await Promise.race([respond(engine)(new Request(url, request as RequestInit)), broken]);
    const reader = response.body?.getReader();
    if (reader === undefined) return response;
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const { done, value } = await Promise.race([reader.read(), broken]);
          if (done) controller.close();
          else controller.enqueue(value);
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { status: response.status, headers: response.headers });
  }
}

export interface AskOptions {
  from?: string;
  session?: string;
  key?: string;
  stream?: boolean;
  content?: string;
  path?: string;
}

/** What a client saw. `text` is undefined for a stream that ended with an error frame. */
export interface Told {
  status: number;
  pool: string | null;
  prefill: string | null;
  body: string;
  /** Ended with its finish and `[DONE]`, without an error. */
  whole: boolean;
}

/** Sends one chat request; time has to be moved for it to be answered. */
export async function ask(router: PrefillRouter, options: AskOptions = {}): Promise<Told> {
  const { from, session, key, stream = true, content = "What runs under the bridge?" } = options;
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (from !== undefined) headers["x-client-geo"] = from;
  if (session !== undefined) headers["x-session-id"] = session;
  if (key !== undefined) headers.authorization = `Bearer ${key}`;
  const body = JSON.stringify({ model: "m", stream, messages: [{ role: "user", content }] });
  const request = new Request(`http://router${options.path ?? "/v1/chat/completions"}`, {
    method: "POST",
    headers,
    body,
  });
  const response = await router.fetch(request);
  const text = await response.text();
  return {
    status: response.status,
    pool: response.headers.get("x-router-pool"),
    prefill: response.headers.get("x-router-prefill"),
    body: text,
    whole: response.status === 200 && !text.includes('"error"') && (!stream || text.endsWith("data: [DONE]\n\n")),
  };
}

/** Sends requests all at once and moves time until all are answered. */
export async function askAll(world: World, router: PrefillRouter, asks: readonly AskOptions[]): Promise<Told[]> {
  return finish(
    world,
    asks.map((one) => ask(router, one)),
  );
}

/** Moves time until all are answered. */
export async function finish(world: World, pending: readonly Promise<Told>[]): Promise<Told[]> {
  let over = false;
  const all = Promise.all(pending).finally(() => {
    over = true;
  });
  for (let round = 0; !over && round < 2_000; round++) await world.clock.advance(10);
  await settled();
  return all;
}

function ignore(): void {}
