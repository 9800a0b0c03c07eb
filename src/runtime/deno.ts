import { createRouter as createPortableRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import { Failure } from "../errors/failure.ts";
import type { Transport } from "../legs/transport.ts";
import { errorResponse } from "../routes/error-response.ts";
import { requestId } from "../routes/request-id.ts";
import { openRedisStore } from "./redis-store.ts";
import { resolveHost } from "./resolve-host.ts";
import { atMost, opensWithin, type RouterHost, type RouterServer, socketAddress, tendByTimer } from "./server.ts";
import { unpackByWeb } from "./web-unpack.ts";

export * from "../index.ts";

/** The part of Deno this file uses. Its own types and those of Bun and Node cannot be loaded together. */
interface DenoRuntime {
  serve(
    options: {
      hostname: string;
      port: number;
      reusePort?: boolean;
      automaticCompression: boolean;
      signal: AbortSignal;
      onListen(): void;
    },
    handler: (request: Request) => Response | Promise<Response>,
  ): { addr: { hostname: string; port: number }; shutdown(): Promise<void> };
  connect(options: { hostname: string; port: number }): Promise<{ close(): void }>;
  createHttpClient(options: { poolIdleTimeout: number; http2: boolean }): unknown;
  permissions: { querySync(permission: { name: "env" }): { state: string } };
  env: {
    get(name: string): string | undefined;
    set(name: string, value: string): void;
    delete(name: string): void;
  };
}

declare const Deno: DenoRuntime;

const encoder = new TextEncoder();

/** Below the five seconds after which uvicorn closes an idle connection. */
const IDLE_SOCKET_MS = 4_000;

let client: unknown;

/**
 * Legs go out with a stream as body: one of bytes or text is **sent again** by Deno itself when a reused socket breaks (2.9, measured: the
 * engine got it twice), and a hand-off may be read once only. A client without idle sockets would do as well, at twice the cost of a
 * request (47 µs against 102 µs on loopback). The price is a chunked body.
 */
export const denoTransport: Transport = {
  fetch(url, { body, ...request }) {
    client ??= unproxiedClient();
    return fetch(url, {
      ...request,
      ...(body === undefined ? {} : { body: oneChunk(body), duplex: "half" }),
      redirect: "manual",
      client,
    } as RequestInit).then(unpacked);
  },
  connects: (url, ms) => opensWithin(Deno.connect(socketAddress(url)), ms),
};

/** Deno unpacks by itself only where no coding was asked for, and the router asks for `identity` everywhere. */
const unpacked = unpackByWeb({
  formats: new Map([
    ["gzip", "gzip"],
    ["x-gzip", "gzip"],
    ["deflate", "deflate"],
    ["br", "brotli"],
  ]),
});

const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/**
 * A client takes the proxies of the environment when it is made, and has no option against that; an engine's address means nothing to
 * them. Where the environment may not be touched, it stays as it is.
 */
function unproxiedClient(): unknown {
  const mayTouch = Deno.permissions.querySync({ name: "env" }).state === "granted";
  const held = mayTouch ? PROXY_VARIABLES.map((name) => [name, Deno.env.get(name)] as const) : [];
  try {
    for (const [name] of held) Deno.env.delete(name);
    return Deno.createHttpClient({ poolIdleTimeout: IDLE_SOCKET_MS, http2: false });
  } finally {
    for (const [name, value] of held) if (value !== undefined) Deno.env.set(name, value);
  }
}

function oneChunk(body: string | Uint8Array<ArrayBuffer>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(typeof body === "string" ? encoder.encode(body) : body);
      controller.close();
    },
  });
}

/** A router with Deno's ways of doing things, whoever serves it. Throws a `ConfigError` that names the field. */
export function createRouter(options: RouterOptions): PrefillRouter {
  const router = createPortableRouter({ transport: denoTransport, resolveHost, openStore: openRedisStore, ...options });
  const { fetch } = router;
  return Object.assign(router, {
    fetch: (request: Request, env?: unknown, context?: unknown) =>
      NO_AUTHORITY.test(request.headers.get("host") ?? "") ? refuseHost(request, router) : fetch(request, env, context),
  });
}

/**
 * What no host and port have in them. Deno writes the url from the `Host` header as it came: `Host: x/metrics?` would choose the route, past
 * whatever a proxy in front allows.
 */
const NO_AUTHORITY = /[\s/?#\\@]/;

/** RFC 9112 section 3.2: an invalid `Host` is answered with 400. */
function refuseHost({ headers }: Request, { telemetry }: PrefillRouter): Response {
  const message = "The Host header is no host";
  telemetry.metrics.rejected("invalid_request");
  return errorResponse(new Failure("invalid_request", { status: 400, stage: "router", message }), {
    requestId: requestId(headers),
    mask: telemetry.mask,
  });
}

export const serveDeno: RouterHost["serve"] = async function serveDeno(router, { reusePort = false } = {}) {
  const { host, port } = router.config.listen;
  const cut = new AbortController();
  const server = Deno.serve(
    {
      hostname: host,
      port,
      reusePort,
      // It would hold back events until its own buffer is full (cases: B31).
      automaticCompression: false,
      signal: cut.signal,
      onListen: saidElsewhere,
    },
    (request) => router.fetch(request) as Promise<Response>,
  );
  const stopTending = tendByTimer(router);
  return {
    router,
    hostname: server.addr.hostname,
    port: server.addr.port,
    async stop(ms) {
      stopTending();
      let gone = false;
      const shutdown = server.shutdown().then(() => {
        gone = true;
      });
      await atMost(shutdown, ms);
      // Aborting a server that has shut down throws.
      if (!gone) cut.abort();
    },
  } satisfies RouterServer;
};

export const denoHost: RouterHost = { createRouter, serve: serveDeno };

/** The command line prints the address itself. */
function saidElsewhere(): void {}
