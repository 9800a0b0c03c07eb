import type { Context } from "hono";
import { requestId } from "./request-id.ts";

/**
 * Nothing but our own files, no script in the page's text, no foreign frame around it: what a stranger gets into a request id or a name
 * stays text.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A page of the router's own. */
export function html(c: Context, page: string): Response {
  const response = ownFile(c, "text/html; charset=utf-8", page);
  response.headers.set("content-security-policy", POLICY);
  response.headers.set("referrer-policy", "no-referrer");
  return response;
}

/** A file of the router's own. Asked for anew each time: it is small, and after an update page and script must fit together. */
export function ownFile(c: Context, type: string, text: string): Response {
  return new Response(text, {
    headers: {
      "content-type": type,
      "cache-control": "no-cache",
      "x-content-type-options": "nosniff",
      "x-request-id": requestId(c.req.raw.headers),
    },
  });
}
