import { createRouter as createPortableRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { Transport } from "../legs/transport.ts";
import { bunDialer } from "./bun-dialer.ts";
import { collectAfterCrowds } from "./bun-heap.ts";
import { bunStream } from "./bun-stream.ts";
import { unpacked, unpackedStream } from "./bun-unpack.ts";
import { openRedisStore } from "./redis-store.ts";
import { resolveHost } from "./resolve-host.ts";
import { atMost, type RouterHost, type RouterServer, type ServeOptions, socketAddress, tendByTimer } from "./server.ts";
import { sendOver } from "./socket-http/send.ts";

export * from "../index.ts";

/** Bun's own limits are off: silence, prompts of minutes and many streams are what a router is for; its deadlines are our own. */
export const bunTransport: Transport = {
  fetch(url, { method, headers, body, signal, fresh }) {
    const init = {
      method,
      headers,
      body,
      signal,
      timeout: false,
      proxy: false,
      redirect: "manual",
      decompress: false,
    } as RequestInit;
    // Takes no connection from Bun's pool, and gives none back.
    if (fresh === true) init.keepalive = false;
    return fetch(url, init).then(unpacked);
  },
  send: sendOver(bunDialer, unpackedStream),
  connects: connectsTo,
};

/** `fetch` cannot bound a connect: one bare TCP connection tells whether anybody is there. */
async function connectsTo(url: string, ms: number): Promise<boolean> {
  const { hostname, port } = socketAddress(url);
  return new Promise<boolean>((resolve) => {
    let answered = false;
    const answer = (open: boolean) => {
      if (answered) return;
      answered = true;
      clearTimeout(timer);
      resolve(open);
    };
    const timer = setTimeout(answer, ms, false);
    Bun.connect({
      hostname,
      port,
      socket: {
        open(socket) {
          answer(true);
          socket.end();
        },
        data() {},
        error() {},
        connectError: () => answer(false),
      },
    }).catch(() => answer(false));
  });
}

export type BunServer = RouterServer;

const SLASH = 0x2f;

/** A router with Bun's ways of doing things, whoever serves it. Throws a `ConfigError` that names the field. */
export function createRouter(options: RouterOptions): PrefillRouter {
  const router = createPortableRouter({ transport: bunTransport, resolveHost, openStore: openRedisStore, ...options });
  const { fetch } = router;
  return Object.assign(router, {
    fetch: (request: Request, env?: unknown, context?: unknown) =>
      fetch(request.url.charCodeAt(0) === SLASH ? withHost(request) : request, env, context),
  });
}

export { createRouter as createBunRouter };

/**
 * Balancers check health over HTTP/1.0 without a `Host` (HAProxy's default). Bun then gives a url that is only a path, in which whoever
 * looks for the path finds another one.
 */
function withHost(request: Request): Request {
  return new Request(`http://localhost${request.url}`, request);
}

/** Throws when the address cannot be listened on. */
export function serveBun(router: PrefillRouter, { reusePort = false }: ServeOptions = {}): BunServer {
  const { host, port } = router.config.listen;
  const server = Bun.serve({
    hostname: host,
    port,
    reusePort,
    // Bun drops connections that are silent for ten seconds otherwise.
    idleTimeout: 0,
    // The limit is ours (413 as JSON); Bun's would be a bare text.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: (request) => router.fetch(request),
  });
  const stopTending = tendByTimer(router);
  const stopCollecting = collectAfterCrowds(router.active);
  return {
    router,
    hostname: server.hostname ?? host,
    port: server.port ?? port,
    async stop(ms) {
      stopTending();
      stopCollecting();
      await atMost(server.stop(), ms);
      await server.stop(true);
    },
  };
}

export const bunHost: RouterHost = {
  createRouter: (options) => createRouter({ clientStream: bunStream, ...options }),
  serve: (router, options) => Promise.try(serveBun, router, options),
};
