import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";

/** What a page may read: all that answers carry beside what browsers show anyway (contract section 7). */
const EXPOSED = [
  "x-request-id",
  "x-router-path",
  "x-router-pool",
  "x-router-prefill",
  "x-router-decode",
  "x-router-error-code",
  "retry-after",
  ...["limit", "remaining", "reset"].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]),
];

/**
 * CORS for configured origins only, on every answer, errors too. Never with credentials: keys travel in headers, and reflecting an
 * origin with credentials is how others' CORS went wrong. Admin routes and the dashboard's data get none.
 */
export function corsFor(origins: readonly string[]): MiddlewareHandler {
  const handler = cors({
    origin: origins.includes("*") ? "*" : [...origins],
    allowMethods: ["GET", "POST", "OPTIONS"],
    exposeHeaders: EXPOSED,
    maxAge: 600,
  });
  return function corsUnlessAdmin(c, next) {
    const { path } = c.req;
    return path.startsWith("/workers") || path.startsWith("/dashboard") ? next() : handler(c, next);
  };
}
