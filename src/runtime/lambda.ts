import { type LambdaContext, type LambdaEvent, streamHandle } from "hono/aws-lambda";
import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import { PromiseSet } from "./background.ts";
import { atMost } from "./server.ts";

export * from "../index.ts";

/** A handler with response streaming, as the platform calls it. */
export type LambdaHandler = (event: LambdaEvent, responseStream: unknown, context: LambdaContext) => Promise<void>;

interface LambdaRuntime {
  streamifyResponse(handler: LambdaHandler): LambdaHandler;
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
  const respond = streamHandle(router.app) as unknown as LambdaHandler;
  // Here, and not among the drains: a worker that hangs would keep the environment for nothing.
  router.tendsWithRequests = false;
  const handler = awslambda.streamifyResponse(async function handle(event, responseStream, context) {
    const tending = router.control.tend();
    await respond(event, responseStream, context);
    await drains.idle();
    await atMost(Promise.all([tending, router.telemetry.flush()]), AFTERWARDS_MS);
  });
  return Object.assign(handler, { router });
}
