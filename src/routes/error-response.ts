import { errorBody } from "../errors/body.ts";
import type { Failure } from "../errors/failure.ts";

export interface ErrorShape {
  requestId: string;
  /** /v1/messages has an envelope of its own. */
  anthropic?: boolean;
  headers?: Record<string, string>;
  mask(text: string): string;
}

/** A Failure as an HTTP error (contract section 4): real status, JSON, the router's code in a header. */
export function errorResponse(failure: Failure, shape: ErrorShape): Response {
  const error = errorBody(failure, shape.mask);
  const body = JSON.stringify(shape.anthropic ? { type: "error", error } : { error });
  const headers: Record<string, string> = {
    ...shape.headers,
    "content-type": "application/json",
    "x-request-id": shape.requestId,
    "x-router-error-code": failure.code,
  };
  // RFC 9110 section 15.5.2; proxies and some clients take a 401 without it for a broken one.
  if (failure.status === 401) headers["www-authenticate"] = "Bearer";
  // An engine that repeats what it was told may do so here too.
  for (const [name, value] of failure.headers) headers[name] = shape.mask(value);
  if (failure.retryAfterSeconds !== undefined)
    headers["retry-after"] = String(Math.max(1, Math.ceil(failure.retryAfterSeconds)));
  return new Response(body, { status: failure.status, headers });
}
