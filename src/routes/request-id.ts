import { newSpanId } from "../telemetry/ids.ts";

const MOST = 128;
const CLEAN = /^[\w.:@+/=~-]{1,128}$/;
const UNCLEAN = /[^\w.:@+/=~-]/g;

/** The client's own id without what has no place in a log line or a URL, and cut to its length; a new one where nothing is left (contract section 7). */
export function requestId(headers: Headers): string {
  const own = headers.get("x-request-id") ?? "";
  if (CLEAN.test(own)) return own;
  return own.replaceAll(UNCLEAN, "").slice(0, MOST) || `req-${newSpanId()}`;
}
