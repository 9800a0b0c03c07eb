import { createRouter, type PrefillRouter, type RouterOptions } from "../../src/create-router.ts";
import type { Transport, TransportRequest } from "../../src/legs/transport.ts";
import type { SimulatedEngine } from "../../src/simulator/engine.ts";
import { respond } from "../../src/simulator/play-response.ts";
import { settle } from "../simulator/support.ts";

export const ADMIN = "admin-key";

/** One request as an engine saw it. */
export interface Seen {
  url: string;
  path: string;
  authorization: string | undefined;
  body: string;
}

/** Engines in this process, by base URL, and a transport that reaches them and nobody else. */
export class EngineHouse {
  readonly engines = new Map<string, SimulatedEngine | ((request: Request) => Response | Promise<Response>)>();
  readonly seen: Seen[] = [];
  readonly transport: Transport = { fetch: (url, request) => this.#fetch(url, request) };

  paths(url: string): string[] {
    return this.seen.filter((seen) => seen.url === url).map((seen) => seen.path);
  }

  async #fetch(url: string, request: TransportRequest): Promise<Response> {
    const { origin, pathname } = new URL(url);
    this.seen.push({
      url: origin,
      path: pathname,
      authorization: request.headers.authorization,
      body: String(request.body ?? ""),
    });
    const engine = this.engines.get(origin);
    if (engine === undefined) throw Object.assign(new Error("Unable to connect"), { code: "ConnectionRefused" });
    const asked = new Request(url, request as RequestInit);
    return typeof engine === "function" ? engine(asked) : respond(engine)(asked);
  }
}

/** A router over the house, with an admin key unless `options.env` says otherwise, and its log lines as objects. */
export function routerOver(
  house: EngineHouse,
  config: Record<string, unknown>,
  options: Partial<RouterOptions> = {},
): { router: PrefillRouter; log: Record<string, unknown>[] } {
  const log: Record<string, unknown>[] = [];
  const router = createRouter({
    config: { auth: { adminKeyEnv: "ADMIN" }, health: { intervalMs: 0 }, ...config },
    env: { ADMIN },
    transport: house.transport,
    sink: (line) => log.push(JSON.parse(line)),
    ...options,
  });
  return { router, log };
}

/** JSON that the test itself vouches for. */
// biome-ignore lint/suspicious/noExplicitAny: answers are walked by path in assertions
export type Json = any;

export interface Reply {
  status: number;
  headers: Headers;
  json: Json;
}

export async function call(
  router: PrefillRouter,
  method: string,
  path: string,
  body?: unknown,
  key: string | undefined = ADMIN,
): Promise<Reply> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (key !== undefined) headers.authorization = `Bearer ${key}`;
  const init: RequestInit = { method, headers };
  if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
  const response = await router.fetch(new Request(`http://router${path}`, init));
  return { status: response.status, headers: response.headers, json: await response.json() };
}

export function chat(model = "m", content = "What runs under the bridge?"): Record<string, unknown> {
  return { model, messages: [{ role: "user", content }] };
}

/** Everything that is due has been asked, and the answers have come in. */
export async function tend(router: PrefillRouter): Promise<void> {
  await router.control.tend();
  await settle();
}

export function names(router: PrefillRouter): string[] {
  return router.control.list().workers.map((worker) => worker.name);
}
