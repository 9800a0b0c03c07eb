import type { Hono } from "hono";
import { createApp } from "./app.ts";
import type { BackgroundPort } from "./attempt/call.ts";
import type { Services } from "./attempt/services.ts";
import type { Platform } from "./config/complete.ts";
import { checkConfig, parseConfig, resolveSecrets, type Secrets } from "./config/load.ts";
import type { RouterConfig } from "./config/schema.ts";
import { Failure } from "./errors/failure.ts";
import { FleetControl } from "./fleet/control.ts";
import type { ResolveHost } from "./fleet/dns-workers.ts";
import { observeFleet } from "./fleet/observe.ts";
import { allKeys } from "./fleet/reload.ts";
import type { Transport } from "./legs/transport.ts";
import { KeyRing } from "./middleware/key-ring.ts";
import { RateLimits } from "./middleware/rate-limits.ts";
import { PoolChoice } from "./regions/choose-pools.ts";
import { Router } from "./router.ts";
import { clientStream } from "./routes/client-stream.ts";
import type { RouteDeps, Running } from "./routes/deps.ts";
import { PromiseSet, RequestBackground, type WaitUntil } from "./runtime/background.ts";
import { type Clock, within } from "./runtime/clock.ts";
import { CoarseClock } from "./runtime/coarse-clock.ts";
import { webTransport } from "./runtime/web-transport.ts";
import { PrefixSketch } from "./shared/prefix-sketch.ts";
import type { OpenStore, SharedStore } from "./shared/store.ts";
import { createTelemetry, type Telemetry } from "./telemetry/telemetry.ts";
import { version } from "./version.ts";
import { Admission } from "./workers/admission.ts";
import { Fleet } from "./workers/fleet.ts";
import { hashText } from "./workers/worker.ts";

export interface RouterOptions {
  /** A checked configuration, an object, or JSON or YAML text (contract section 2). */
  config: RouterConfig | Record<string, unknown> | string;
  /** Environment variables that the configuration names (`keyEnv`, `apiKeyEnv`, `adminKeyEnv`). */
  env?: Readonly<Record<string, unknown>>;
  /** In place of `env`, when the caller has looked the keys up. */
  secrets?: Secrets;
  transport?: Transport;
  clock?: Clock;
  /** `workers` changes defaults and lowers limits (contract section 2), and keeps everything but plain data within its request. */
  platform?: Platform;
  /**
   * Where drains live. Absent: the request's own `waitUntil` if it has one, else a set of promises. A function is asked once per request
   * (a Durable Object gives its state).
   */
  background?: BackgroundPort | ((context: { executionCtx?: unknown }) => BackgroundPort);
  /** Takes log lines; absent = no log. */
  sink?: (line: string) => void;
  clientStream?: RouteDeps["clientStream"];
  /** What this router shares with others. Absent: what `openStore` makes of `store` in the configuration, if anything. */
  store?: SharedStore;
  /** Opens the configuration's store; a runtime that has a client for it brings this. */
  openStore?: OpenStore;
  /** Looks up the names of `dns+` workers. Absent: the runtime cannot, and such workers are a `ConfigError`. */
  resolveHost?: ResolveHost;
}

/** A router as one object. `fetch` fits `Bun.serve`, `Deno.serve`, a Worker and Hono's adapters; `app` can be mounted in another Hono app. */
export interface PrefillRouter {
  fetch(request: Request, env?: unknown, context?: unknown): Response | Promise<Response>;
  app: Hono;
  config: RouterConfig;
  services: Services;
  telemetry: Telemetry;
  /** Admin routes, reload, and what has to be done regularly (`tend`). */
  control: FleetControl;
  /** The door: who is in, who waits. */
  admission: Admission;
  /** `control.tend` rides on requests. A server with a timer of its own turns it off (`runtime/server.ts`). */
  tendsWithRequests: boolean;
  /** Requests whose response is not over. */
  active(): number;
  /**
   * Not ready from now on, nothing new is let in; running streams and drains may finish for `ms`, then each stream gets an error frame.
   * Resolves when all is over.
   */
  shutdown(ms: number): Promise<void>;
}

/** So many probes at a time ride on a request: where connections are few (Workers: six) the legs come first. */
const TEND_WITH_REQUEST = 2;
/** Requests that come sooner after the last one that probes rode on carry none. */
const TEND_EVERY_MS = 100;

/** For the last spans, at shutdown. */
const FLUSH_MS = 2_000;

/** Throws a `ConfigError` that names the field. Starts nothing: no timer, no request, no randomness, so a Worker may call it at start. */
export function createRouter(options: RouterOptions): PrefillRouter {
  const config = checkedConfig(options.config, options.platform);
  const secrets = options.secrets ?? resolveSecrets(config, options.env ?? {});
  const clock = options.clock ?? new CoarseClock();
  const transport = options.transport ?? webTransport;
  const telemetry = createTelemetry(
    { models: config.models.map((model) => model.id), log: config.log, otlpUrl: config.telemetry.otlpUrl },
    {
      clock,
      perRequest: options.platform === "workers",
      wallNow: Date.now,
      sink: options.sink ?? nothing,
      secrets: allKeys(secrets),
      version,
    },
  );
  const fleet = new Fleet(config, secrets.workerKeys, {
    now: () => clock.now(),
    random: Math.random,
    events: {
      onBreaker: (worker, to) => {
        telemetry.metrics.breakerChange(worker.name, to);
        telemetry.changes.add(worker, `breaker ${to}`);
        telemetry.log.event(to === "open" ? "warn" : "info", "breaker", { worker: worker.name, state: to });
      },
      onHealth: (worker, healthy) => {
        telemetry.changes.add(worker, healthy ? "healthy" : "unhealthy");
        telemetry.log.event(healthy ? "info" : "warn", "health", { worker: worker.name, healthy });
        control.healthChanged(worker, healthy);
      },
    },
  });
  const store = options.store ?? openStore(options.openStore, config, secrets);
  // All that share a store share its password, so they agree on the seed, and nobody else knows it.
  const sketch = new PrefixSketch(hashText(secrets.storePassword ?? ""), store !== undefined);
  const places = new PoolChoice(config, fleet, sketch);
  const services: Services = { config, fleet, transport, clock, telemetry, random: Math.random, places };
  services.facts = {
    introduce: (worker) => control.introduce(worker),
    doubt: (worker) => control.doubt(worker),
  };
  const admission = new Admission(config.limits, clock);
  const ownBackground = new PromiseSet();
  const calls = new Set<Running>();
  let down = false;
  let ended: Failure | undefined;
  let tendAgainAt = Number.NEGATIVE_INFINITY;
  telemetry.observeFleet(() => observeFleet(fleet, admission, clock.now()));
  const router = new Router(services);
  const keys = new KeyRing(secrets.clientKeys, secrets.adminKey);
  const { resolveHost } = options;
  const shared = store && { store, wallNow: Date.now, random: Math.random, secret: () => keys.adminKey, sketch };
  const control = new FleetControl({
    services,
    admission,
    keys,
    router,
    secrets,
    resolveHost,
    shared,
    tendsSteadily: () => !made.tendsWithRequests,
  });
  if (config.store !== undefined && store === undefined) {
    telemetry.log.event("warn", "store", { reached: false, reason: "this runtime has no client for it" });
  }
  const deps: RouteDeps = {
    services,
    router,
    admission,
    keys,
    rateLimits: new RateLimits(clock),
    control,
    calls,
    shuttingDown: () => down,
    ended: () => ended,
    clientStream: options.clientStream ?? clientStream,
    background(context) {
      const port = portOf(context);
      if (made.tendsWithRequests) tendWith(port);
      return port;
    },
  };
  const app = createApp(deps);
  const made: PrefillRouter = {
    fetch(request, env, context) {
      // A balancer that asks for /ready keeps an idle router informed, and so does an operator who asks whether a worker is drained.
      if (made.tendsWithRequests) {
        const execution = executionOf({ executionCtx: context });
        tendWith(execution === undefined ? ownBackground : { run: (task) => execution.waitUntil(task) });
      }
      return app.fetch(request, env as object, context as never);
    },
    app,
    config,
    services,
    telemetry,
    control,
    admission,
    tendsWithRequests: true,
    active: () => calls.size,
    shutdown,
  };
  return made;

  function portOf(context: { executionCtx?: unknown }): BackgroundPort {
    const { background } = options;
    if (typeof background === "function") return background(context);
    if (background !== undefined) return background;
    // A server of our own has no contexts, and asking for one that is not there costs an exception.
    if (!made.tendsWithRequests) return ownBackground;
    const execution = executionOf(context);
    return execution === undefined ? ownBackground : new RequestBackground(execution, clock, () => telemetry.flush());
  }

  /** Not in the request's own tick: its legs leave first. */
  function tendWith(port: BackgroundPort): void {
    const now = clock.now();
    if (now < tendAgainAt) return;
    tendAgainAt = now + TEND_EVERY_MS;
    port.run(new Promise<void>((resolve) => clock.after(0, resolve)).then(() => control.tend(TEND_WITH_REQUEST)));
  }

  async function shutdown(ms: number): Promise<void> {
    down = true;
    admission.close(Math.max(1, Math.ceil(ms / 1000)));
    // By places, not by calls: a request whose body is still on its way was let in as well.
    await until(() => admission.active === 0 && ownBackground.size === 0, ms);
    ended = new Failure("shutting_down", {
      status: 503,
      stage: "router",
      message: "The router is shutting down",
      retryAfterSeconds: 1,
    });
    for (const call of calls) call.stop(ended);
    await until(() => admission.active === 0, 1_000);
    await control.close().catch(nothing);
    // A collector that does not answer must not keep a process that has nothing else to do.
    await within(telemetry.flush(), FLUSH_MS, clock);
  }

  /** Polls: shutdown happens once, and nothing else needs to know who is last. */
  function until(met: () => boolean, ms: number): Promise<void> {
    const end = clock.now() + ms;
    return new Promise((resolve) => {
      const look = () => {
        if (met() || clock.now() >= end) resolve();
        else clock.after(Math.min(20, Math.max(1, end - clock.now())), look);
      };
      look();
    });
  }
}

function openStore(open: OpenStore | undefined, { store }: RouterConfig, secrets: Secrets): SharedStore | undefined {
  return store === undefined ? undefined : open?.({ url: store.url, password: secrets.storePassword });
}

function checkedConfig(config: RouterOptions["config"], platform: Platform = "server"): RouterConfig {
  return typeof config === "string" ? parseConfig(config, { platform }) : checkConfig(config, { platform });
}

/** Hono's `executionCtx` throws where there is none. */
function executionOf(context: { executionCtx?: unknown }): WaitUntil | undefined {
  try {
    const execution = context.executionCtx;
    if (typeof execution === "object" && execution !== null && "waitUntil" in execution) return execution as WaitUntil;
  } catch {
    // No context: a server of our own.
  }
  return undefined;
}

function nothing(): void {}
