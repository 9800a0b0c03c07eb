import { type Context, Hono } from "hono";
import { asFailure, Failure } from "./errors/failure.ts";
import { corsFor } from "./middleware/cors.ts";
import { DashboardRoutes } from "./routes/dashboard.ts";
import type { RouteDeps } from "./routes/deps.ts";
import { errorResponse } from "./routes/error-response.ts";
import { FORWARDED, forwardHandler } from "./routes/forward.ts";
import { type GenerationHandler, generationHandler } from "./routes/generation.ts";
import { ModelRoutes } from "./routes/models.ts";
import { docs, openapi } from "./routes/openapi.ts";
import { requestId } from "./routes/request-id.ts";
import { health, metricsHandler, readyHandler } from "./routes/status.ts";
import { WorkerRoutes } from "./routes/workers.ts";
import type { Api } from "./sse/api.ts";

const GENERATION: readonly (readonly [Api, string])[] = [
  ["chat", "/v1/chat/completions"],
  ["completions", "/v1/completions"],
  ["responses", "/v1/responses"],
  ["messages", "/v1/messages"],
  ["generate", "/generate"],
];

/** The routes of contract section 3, and nothing else: what is not listed is 404 and reaches no worker. */
export function createApp(deps: RouteDeps): Hono {
  const app = new Hono();
  const known: { shape: RegExp; method: string }[] = [];
  const { mask } = deps.services.telemetry;
  const { origins } = deps.services.config.cors;
  if (origins.length > 0) app.use(corsFor(origins));

  const generation = new Map(GENERATION.map(([api, path]) => [path, generationHandler(api, path, deps)]));
  for (const [path, handler] of generation) route("POST", path, handler);
  for (const path of FORWARDED) route("POST", path, forwardHandler(path, deps));
  const models = new ModelRoutes(deps);
  route("GET", "/v1/models", models.list);
  route("GET", "/v1/models/:id{.+}", models.one);
  route("GET", "/health", health);
  route("GET", "/ready", readyHandler(deps));
  route("GET", "/metrics", metricsHandler(deps));
  const dashboard = new DashboardRoutes(deps);
  route("GET", "/", dashboard.page);
  route("GET", "/assets/:file", dashboard.asset);
  route("GET", "/openapi.json", openapi);
  route("GET", "/docs", docs);
  route("GET", "/dashboard/events", dashboard.events);

  const workers = new WorkerRoutes({
    control: deps.control,
    keys: deps.keys,
    clock: deps.services.clock,
    rejected: (code) => deps.services.telemetry.metrics.rejected(code),
    mask,
  });
  app.all("/workers", workers.all);
  app.all("/workers/:name", workers.one);
  app.all("/workers/:name/drain", workers.drain);

  // Whatever the method is called: a route per wrong method would know only the usual ones.
  app.notFound(function notFoundOrNotAllowed(c) {
    const { path } = c.req;
    const method = known.find(({ shape }) => shape.test(path))?.method;
    const failure =
      method === undefined
        ? new Failure("not_found", { status: 404, stage: "router", message: "No such route" })
        : new Failure("method_not_allowed", {
            status: 405,
            stage: "router",
            message: `${path.slice(0, 200)} takes ${method} only`,
          });
    deps.services.telemetry.metrics.rejected(failure.code);
    return refuse(c, failure, method === undefined ? {} : { allow: method });
  });
  app.onError(function onError(error, c) {
    deps.services.telemetry.log.event("error", "internal", { error });
    return refuse(c, asFailure(error));
  });
  if (origins.length === 0) takeShortCut(app, generation);
  return app;

  function route(method: "GET" | "POST", path: string, handler: (c: Context) => Response | Promise<Response>): void {
    app.on(method, path, handler);
    known.push({ shape: shapeOf(path), method });
  }

  function refuse(c: Context, failure: Failure, headers: Record<string, string> = {}): Response {
    const anthropic = c.req.path === "/v1/messages";
    return errorResponse(failure, { requestId: requestId(c.req.raw.headers), anthropic, headers, mask });
  }
}

/** A route's path as a pattern: `:name` is one segment, `:name{.+}` the rest. Hono answers HEAD where there is a GET. */
function shapeOf(path: string): RegExp {
  const source = path
    .replaceAll(".", "\\.")
    .replace(/:\w+\{\\\.\+\}$/, ".+")
    .replace(/:\w+$/, "[^/]+");
  return new RegExp(`^${source}$`);
}

/**
 * Generation requests of a server of our own go past Hono: its context and its dispatch are 40 objects and 4 µs a request. Whatever has
 * an execution context, another path (escapes in it, say) or another method has its turn with Hono.
 */
function takeShortCut(app: Hono, handlers: ReadonlyMap<string, GenerationHandler>): void {
  const throughHono = app.fetch;
  app.fetch = function fetch(request, env, context) {
    if (request.method === "POST" && context === undefined) {
      const handler = handlers.get(pathOf(request.url));
      if (handler !== undefined) return handler({ req: { raw: request } });
    }
    return throughHono(request, env, context);
  };
}

/** The path of a complete URL, without its query. */
function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.indexOf("?", start);
  return url.slice(start, end < 0 ? url.length : end);
}
