import type { Context } from "hono";
import type { RouteDeps } from "./deps.ts";
import { json } from "./json-response.ts";
import { requestId } from "./request-id.ts";

/** GET /health: the process is alive. Never looks at workers. */
export function health(c: Context): Response {
  return json(c, 200, { status: "ok" });
}

/** GET /ready: each model can be served, and the router is not shutting down (contract section 3). */
export function readyHandler(deps: RouteDeps): (c: Context) => Response {
  return function ready(c) {
    const { fleet, clock } = deps.services;
    const models = fleet.ready(clock.now());
    const down = deps.shuttingDown();
    const isReady = !down && models.every((model) => model.ready);
    return json(c, isReady ? 200 : 503, {
      status: isReady ? "ready" : down ? "shutting down" : "not ready",
      models: Object.fromEntries(
        models.map(({ model, ready, reason }) => [model, ready ? { ready } : { ready, reason }]),
      ),
    });
  };
}

/** GET /metrics: Prometheus text. */
export function metricsHandler(deps: RouteDeps): (c: Context) => Response {
  return function metrics(c) {
    const headers = {
      "content-type": "text/plain; version=0.0.4; charset=utf-8",
      "x-request-id": requestId(c.req.raw.headers),
    };
    return new Response(deps.services.telemetry.metrics.render(), { headers });
  };
}
