import type { ClientSource } from "../attempt/answer.ts";
import { inertSettings } from "../config/inert.ts";
import { ConfigError, checkConfig, configFromEnv, parseConfig } from "../config/load.ts";
import { createRouter as createPortableRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import { Failure } from "../errors/failure.ts";
import type { Transport } from "../legs/transport.ts";
import { clientStream } from "../routes/client-stream.ts";
import { errorResponse } from "../routes/error-response.ts";
import { requestId } from "../routes/request-id.ts";
import type { WaitUntil } from "./background.ts";
import { boundTransport, type Fetcher } from "./bound-transport.ts";
import { ObjectStore, objectNamespace } from "./object-store.ts";
import { requestClock } from "./request-clock.ts";
import { socketAddress } from "./server.ts";
import { webTransport } from "./web-transport.ts";
import { unpackByWeb } from "./web-unpack.ts";

export * from "../index.ts";
export { type ObjectNamespace, ObjectStore } from "./object-store.ts";
export { PoolState } from "./pool-state-object.ts";

export interface WorkersRouterOptions extends RouterOptions {
  /** Worker name → what answers in place of the network: a service binding, a VPC service. */
  bindings?: Readonly<Record<string, Fetcher>>;
}

/**
 * A router for Cloudflare Workers: other default policies and fewer connections (contract section 2), nothing shared between requests but
 * plain data. May be called while the module is loaded: it starts no timer, asks for no randomness and makes no hash.
 *
 * Throws a `ConfigError` that names the field.
 */
export function createRouter({ bindings = {}, ...options }: WorkersRouterOptions): PrefillRouter {
  const platform = "workers";
  const config =
    typeof options.config === "string"
      ? parseConfig(options.config, { platform })
      : checkConfig(options.config, { platform });
  const transport = boundTransport(options.transport ?? workersTransport, config, bindings, unpacked);
  return createPortableRouter({
    clock: requestClock,
    sink: console.log,
    clientStream: pumpedStream,
    ...options,
    platform,
    config,
    transport,
  });
}

/** Of the codings by their first names the platform unpacks one, in answers of bindings too. */
const unpacked = unpackByWeb({
  formats: new Map([
    ["gzip", "gzip"],
    ["x-gzip", "gzip"],
    ["deflate", "deflate"],
  ]),
  unpacked: new Set(["gzip", "br"]),
});

export const workersTransport: Transport = {
  fetch: (url, request) => webTransport.fetch(url, request).then(unpacked),
  connects: connectsTo,
};

/**
 * Only silence proves that nobody is there: an address that the platform will not connect to (its own proxies among them) is refused
 * at once, although `fetch` reaches it.
 */
async function connectsTo(url: string, ms: number): Promise<boolean> {
  const { connect } = await import("cloudflare:sockets");
  const socket = connect(socketAddress(url));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const open = await Promise.race([socket.opened.then(isTrue, isTrue), limit]);
  clearTimeout(timer);
  socket.close().catch(isTrue);
  return open;
}

declare const IdentityTransformStream: (new () => TransformStream<Uint8Array, Uint8Array>) | undefined;

/**
 * Through the platform's own pipe: a stream of ours is not told of a client that has gone while bytes were being written (workerd, 2026:
 * neither `cancel` nor the request's signal), but the pipe's writer is. It takes a block when the client has taken the last one.
 */
function pumpedStream(source: ClientSource, left: () => void): ReadableStream<Uint8Array> {
  if (typeof IdentityTransformStream === "undefined") return clientStream(source, left);
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  // One client that leaves may be told twice, by a write and by the pipe; the second is no news.
  writer.closed.catch(left);
  void pump(source, writer).catch(left);
  return readable;
}

async function pump(source: ClientSource, writer: WritableStreamDefaultWriter<Uint8Array>): Promise<void> {
  for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next()) await writer.write(bytes);
  await writer.close();
}

type Env = Readonly<Record<string, unknown>>;

/** One router per environment, made by its first request. Plain data as far as requests are concerned. */
const routers = new WeakMap<Env, PrefillRouter>();

/**
 * The ready-made Worker: configuration from `ROUTER_CONFIG` (or `ROUTER_CONFIG_1…n`), keys from secrets, bindings from
 * `ROUTER_BINDINGS` (JSON text, worker name → name of the binding), shared state in the Durable Objects of the binding `POOL_STATE`, if
 * there is one. A bad configuration answers 500 to everything and says in the log
 * which field is wrong.
 */
export default {
  fetch(request: Request, env: Env, context: WaitUntil): Response | Promise<Response> {
    let router = routers.get(env);
    if (router === undefined) {
      try {
        router = routerFrom(env);
      } catch (error) {
        return unconfigured(request, error);
      }
      routers.set(env, router);
    }
    return router.fetch(request, env, context);
  },
};

function routerFrom(env: Env): PrefillRouter {
  const source = configFromEnv(env, "workers");
  if (source === undefined || !("text" in source)) {
    throw new ConfigError([{ path: "ROUTER_CONFIG", message: "wanted the configuration as JSON text, got nothing" }]);
  }
  const objects = objectNamespace(env.POOL_STATE);
  const router = createRouter({
    config: source.text,
    env,
    bindings: bindingsFrom(env),
    ...(objects === undefined ? {} : { store: new ObjectStore(objects) }),
  });
  for (const warning of inertSettings(router.config)) console.warn(warning);
  return router;
}

function bindingsFrom(env: Env): Record<string, Fetcher> {
  const { ROUTER_BINDINGS: text } = env;
  if (text === undefined || text === "") return {};
  let names: unknown = text;
  try {
    if (typeof text === "string") names = JSON.parse(text);
  } catch {
    names = undefined;
  }
  if (typeof names !== "object" || names === null || Array.isArray(names)) {
    throw new ConfigError([{ path: "ROUTER_BINDINGS", message: 'wanted JSON like {"worker":"BINDING"}' }]);
  }
  return Object.fromEntries(Object.entries(names).map(([worker, name]) => [worker, env[String(name)] as Fetcher]));
}

function unconfigured(request: Request, error: unknown): Response {
  const issues = error instanceof ConfigError ? error.message : String(error);
  console.error(JSON.stringify({ level: "error", event: "bad_configuration", issues }));
  const message = "The router's configuration is wrong; its log says where";
  return errorResponse(new Failure("internal", { status: 500, stage: "router", message }), {
    requestId: requestId(request.headers),
    mask: String,
  });
}

function isTrue(): boolean {
  return true;
}
