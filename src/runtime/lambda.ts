import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import type { LambdaContext, LambdaEvent } from "hono/aws-lambda";
import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import { Failure } from "../errors/failure.ts";
import { errorResponse } from "../routes/error-response.ts";
import { requestId } from "../routes/request-id.ts";
import { PromiseSet } from "./background.ts";
import { requestOf } from "./lambda-event.ts";
import { atMost } from "./server.ts";

export * from "../index.ts";

/** A handler with response streaming, as the platform calls it. */
export type LambdaHandler = (event: LambdaEvent, responseStream: unknown, context: LambdaContext) => Promise<void>;

interface LambdaRuntime {
  streamifyResponse(handler: LambdaHandler): LambdaHandler;
  HttpResponseStream: {
    from(responseStream: unknown, head: { statusCode: number; headers: Record<string, string> }): Writable;
  };
}

declare const awslambda: LambdaRuntime;

/** After the answer, for probes that are under way and for spans, which the frozen environment would keep. */
const AFTERWARDS_MS = 500;

/**
 * The handler of a function URL with invoke mode `RESPONSE_STREAM`. There is no `waitUntil`: the environment is frozen when the handler
 * has returned, so it returns when the drains of its request have ended (`timeouts.tailMs` bounds them; the function's own time limit
 * must be longer than the longest answer). Throws a `ConfigError` that names the field.
 */
export function createLambdaHandler(options: RouterOptions): LambdaHandler & { router: PrefillRouter } {
  // One environment serves one request at a time, so this is the request's own set.
  const drains = new PromiseSet();
  const router = createRouter({ sink: console.log, ...options, background: drains });
  // Here, and not among the drains: a worker that hangs would keep the environment for nothing.
  router.tendsWithRequests = false;
  const handler = awslambda.streamifyResponse(async function handle(event, responseStream, context) {
    const tending = router.control.tend();
    const request = await requestOf(event, context);
    await send(request === undefined ? noRequest(router) : await router.fetch(request), responseStream);
    await drains.idle();
    await atMost(Promise.all([tending, router.telemetry.flush()]), AFTERWARDS_MS);
  });
  return Object.assign(handler, { router });
}

/**
 * Resolves when the answer is written, or its client is gone: then its body is closed at once, also while nothing comes of it, and with it
 * both legs.
 */
async function send({ status, headers, body }: Response, responseStream: unknown): Promise<void> {
  const out = awslambda.HttpResponseStream.from(responseStream, {
    statusCode: status,
    headers: Object.fromEntries(headers),
  });
  if (body === null) {
    // The head goes with the first write.
    out.write("");
    out.end();
    return;
  }
  await pipeline(Readable.fromWeb(body as unknown as NodeReadableStream), out).catch(clientHasLeft);
}

function noRequest({ telemetry }: PrefillRouter): Response {
  const message = "The event holds no HTTP request";
  telemetry.metrics.rejected("invalid_request");
  return errorResponse(new Failure("invalid_request", { status: 400, stage: "router", message }), {
    requestId: requestId(new Headers()),
    mask: telemetry.mask,
  });
}

/** The router's own line of the request says so. */
function clientHasLeft(): void {}
