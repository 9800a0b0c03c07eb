import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { WaitUntil } from "./background.ts";

export * from "../index.ts";

/** Where the platform keeps the context of the request that is being served (what its `waitUntil` function reads too). */
const CONTEXT = Symbol.for("@vercel/request-context");

export type VercelHandler = (request: Request) => Response | Promise<Response>;

export interface VercelOptions extends RouterOptions {
  /** Where the function is, e.g. `/api`: taken off the paths that begin with it, for the router's own begin at `/`. Default: nowhere. */
  basePath?: string;
}

/** The handler of a Vercel function, for every method. Drains live in the platform's `waitUntil`. Throws a `ConfigError`. */
export function createVercelHandler({ basePath = "", ...options }: VercelOptions): VercelHandler & {
  router: PrefillRouter;
} {
  const router = createRouter({ sink: console.log, ...options });
  const base = basePath.replace(/\/+$/, "");
  function handle(request: Request): Response | Promise<Response> {
    return router.fetch(base === "" ? request : withoutBase(request, base), undefined, waitUntilOfRequest());
  }
  return Object.assign(handle, { router });
}

function withoutBase(request: Request, base: string): Request {
  const url = new URL(request.url);
  if (url.pathname !== base && !url.pathname.startsWith(`${base}/`)) return request;
  url.pathname = url.pathname.slice(base.length);
  return new Request(url, request);
}

function waitUntilOfRequest(): WaitUntil | undefined {
  const holder = (globalThis as { [CONTEXT]?: { get?(): Partial<WaitUntil> | undefined } })[CONTEXT];
  const context = holder?.get?.();
  return typeof context?.waitUntil === "function" ? (context as WaitUntil) : undefined;
}
