import { createRouter, type PrefillRouter } from "../../src/create-router.ts";
import type { Worker } from "../../src/workers/worker.ts";
import { type HandRequest, HandTransport } from "../legs/hand-made.ts";
import { ManualClock, settled } from "../manual-clock.ts";

export type Leg = "prefill" | "decode";

export interface HandRouter {
  router: PrefillRouter;
  clock: ManualClock;
  transport: HandTransport;
  /** Names of workers in the order in which they were sent something. */
  sent(): string[];
  /** The n-th request that a worker got. */
  at(worker: string, index?: number): HandRequest;
  worker(name: string): Worker;
  /** Failures in a row that the worker's breaker has counted. */
  blamed(name: string): number;
  /** Sums over workers: 0 when nothing is in hand any more. */
  load(): number;
  counter(name: string): number;
  /** Sends a chat request; resolves with the response's head. */
  ask(body?: object, init?: RequestInit & { path?: string }): Asked;
}

export interface Asked {
  response: Promise<Response>;
  leave(): void;
}

/** Pool settings: two workers of each kind, taken in turn, so that tests know who is next. */
export function handRouter(
  pool: object = { engine: "sglang" },
  config: object = {},
  env: Record<string, string> = {},
): HandRouter {
  const clock = new ManualClock();
  const transport = new HandTransport();
  const router = createRouter({
    config: {
      models: [
        {
          id: "m",
          pools: [
            {
              name: "p",
              prefill: [
                { name: "p1", url: "http://p1:1" },
                { name: "p2", url: "http://p2:1" },
              ],
              decode: [
                { name: "d1", url: "http://d1:1" },
                { name: "d2", url: "http://d2:1" },
              ],
              ...pool,
            },
          ],
        },
      ],
      policy: { prefill: "round-robin", decode: "round-robin" },
      ...config,
    },
    env,
    clock,
    transport,
  });
  // Health checks and the like would stand among the legs.
  router.tendsWithRequests = false;
  const workers = router.services.fleet
    .models()
    .flatMap((model) => model.pools.flatMap((p) => [...p.prefill, ...p.decode, ...p.workers]));
  // So would questions: these engines have been asked, in vain.
  for (const asked of workers) asked.learn({});
  return { router, clock, transport, sent, at, worker, blamed, load, counter, ask };

  function sent(): string[] {
    return transport.requests.map(({ url }) => new URL(url).hostname);
  }

  function at(name: string, index = 0): HandRequest {
    const found = transport.requests.filter(({ url }) => new URL(url).hostname === name)[index];
    if (found === undefined)
      throw new Error(`Expected request ${index} at ${name}, got ${sent().join(", ") || "none"}`);
    return found;
  }

  function worker(name: string): Worker {
    return workers.find((candidate) => candidate.name === name)!;
  }

  function blamed(name: string): number {
    return worker(name).breaker.failures;
  }

  function load(): number {
    return workers.reduce((sum, { load: held }) => sum + held.requests + held.tokens, 0);
  }

  function counter(name: string): number {
    let sum = 0;
    for (const line of router.telemetry.metrics.render().split("\n")) {
      if (line.startsWith(`prefill_router_${name}{`) || line.startsWith(`prefill_router_${name} `)) {
        sum += Number(line.slice(line.lastIndexOf(" ") + 1));
      }
    }
    return sum;
  }

  function ask(
    body: object = {},
    { path = "/v1/chat/completions", ...init }: RequestInit & { path?: string } = {},
  ): Asked {
    const client = new AbortController();
    const request = new Request(`http://router${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], stream: true, ...body }),
      signal: client.signal,
      ...init,
    });
    return { response: Promise.resolve(router.fetch(request)), leave: () => client.abort() };
  }
}

/** The answer of an engine's prefill leg: one token. */
export const PREFILLED = {
  id: "p",
  choices: [{ index: 0, message: { role: "assistant", content: "a" }, finish_reason: "length" }],
  usage: { prompt_tokens: 7, completion_tokens: 1, prompt_tokens_details: { cached_tokens: 4 } },
};

/** A good NIXL hand-off, as a real engine writes it. */
export const KV =
  '{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3]],"remote_engine_id":"e-1","remote_request_id":"chatcmpl-1","remote_host":"10.0.0.7","remote_port":5701,"tp_size":1,"remote_num_tokens":9007199254740993}';

export function nixlAnswer(kv = KV): string {
  return `${JSON.stringify(PREFILLED).slice(0, -1)},"kv_transfer_params":${kv}}`;
}

/** The body of a response as far as it goes; rejects are not expected. */
export async function textOf(response: Promise<Response>): Promise<string> {
  return (await response).text();
}

export async function errorOf(
  response: Promise<Response>,
): Promise<{ status: number; router: string | null; error: Record<string, unknown> }> {
  const got = await response;
  const body = (await got.json()) as { error: Record<string, unknown> };
  return { status: got.status, router: got.headers.get("x-router-error-code"), error: body.error };
}

export { settled };
