import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { WaitUntil } from "./background.ts";

export * from "../index.ts";

/** Where the platform keeps the context of the request that is being served (what its `waitUntil` function reads too). */
const CONTEXT = Symbol.for("@vercel/request-context");

export type VercelHandler = (request: Request) => Response | Promise<Response>;

/** The handler of a Vercel function, for every method. Drains live in the platform's `waitUntil`. Throws a `ConfigError`. */
export function createVercelHandler(options: RouterOptions): VercelHandler & { router: PrefillRouter } {
  const router = createRouter({ sink: console.log, ...options });
  return Object.assign((request: Request) => router.fetch(request, undefined, waitUntilOfRequest()), { router });
}

function waitUntilOfRequest(): WaitUntil | undefined {
  const holder = (globalThis as { [CONTEXT]?: { get?(): Partial<WaitUntil> | undefined } })[CONTEXT];
  const context = holder?.get?.();
  return typeof context?.waitUntil === "function" ? (context as WaitUntil) : undefined;
}
