import type { Context } from "hono";
import { requestId } from "./request-id.ts";

/** A JSON response of the router's own. */
export function json(c: Context, status: number, value: unknown): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { "content-type": "application/json", "x-request-id": requestId(c.req.raw.headers) },
  });
}
