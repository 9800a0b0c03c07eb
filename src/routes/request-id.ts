import { newSpanId } from "../telemetry/ids.ts";

const CLEAN = /^[\w.:@+-]{1,128}$/;

/** The client's own id when it is a plain token, else a new one (contract section 7). */
export function requestId(headers: Headers): string {
  const own = headers.get("x-request-id");
  return own !== null && CLEAN.test(own) ? own : `req-${newSpanId()}`;
}
