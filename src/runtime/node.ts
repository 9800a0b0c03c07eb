import type { Server } from "node:http";
import { connect } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { Agent, fetch as undiciFetch } from "undici";
import { createRouter as createPortableRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { Transport } from "../legs/transport.ts";
import { nodeDialer } from "./node-dialer.ts";
import { unpackedByNode } from "./node-unpack.ts";
import { openRedisStore } from "./redis-store.ts";
import { resolveHost } from "./resolve-host.ts";
import { atMost, type RouterHost, type RouterServer, socketAddress, tendByTimer } from "./server.ts";
import { sendOver } from "./socket-http/send.ts";

export * from "../index.ts";

/** undici gives up after 300 s without headers or body bytes, and after 10 s without a connection; the router's deadlines are its own. */
const NO_LIMITS = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 0 } } as const;

/** Longer than any balancer in front keeps its own side open, so that it is the balancer who closes first. */
const KEEP_ALIVE_MS = 75_000;

let agent: Agent | undefined;
/** Keeps no connection: for requests that must not meet a stale one. */
let freshAgent: Agent | undefined;

export const nodeTransport: Transport = {
  fetch(url, request) {
    if (request.fresh === true) freshAgent ??= new Agent({ ...NO_LIMITS, pipelining: 0 });
    else agent ??= new Agent(NO_LIMITS);
    // Its Response is the web's by shape, not by class.
    return undiciFetch(url, {
      ...request,
      dispatcher: request.fresh === true ? freshAgent : agent,
      redirect: "manual",
    }) as unknown as Promise<Response>;
  },
  send: sendOver(nodeDialer, unpackedByNode),
  connects: connectsTo,
};

function connectsTo(url: string, ms: number): Promise<boolean> {
  const { hostname: host, port } = socketAddress(url);
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const answer = (open: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(open);
    };
    const timer = setTimeout(answer, ms, false);
    socket.once("connect", () => answer(true)).once("error", () => answer(false));
  });
}

/** A router with Node's ways of doing things (22 or newer). Throws a `ConfigError` that names the field. */
export function createRouter(options: RouterOptions): PrefillRouter {
  return createPortableRouter({ transport: nodeTransport, resolveHost, openStore: openRedisStore, ...options });
}

export const serveNode: RouterHost["serve"] = async function serveNode(router, { reusePort = false } = {}) {
  const { host, port } = router.config.listen;
  // The globals stay Node's own: whoever embeds the router did not ask for others.
  const server = createAdaptorServer({
    fetch: (request, { incoming }) => {
      const answering = Promise.resolve(router.fetch(request));
      return incoming.httpVersionMinor === 0 ? answering : answering.then(streamsAtOnce);
    },
    overrideGlobalObjects: false,
    // For requests without a `Host` (HTTP/1.0), which balancers check health with.
    hostname: "localhost",
  }) as Server;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, reusePort }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  const stopTending = tendByTimer(router);
  const address = server.address();
  return {
    router,
    hostname: host,
    port: typeof address === "object" && address !== null ? address.port : port,
    async stop(ms) {
      stopTending();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // Again and again: a connection is idle only when its last response has been read.
      const closing = setInterval(() => server.closeIdleConnections(), 20);
      await atMost(closed, ms);
      clearInterval(closing);
      server.closeAllConnections();
    },
  } satisfies RouterServer;
};

/** Of a stream that does not say how it is framed, the adaptor holds the first event back for a millisecond, in case a second one follows. */
function streamsAtOnce(response: Response): Response {
  const { headers } = response;
  if (headers.get("content-type")?.startsWith("text/event-stream") === true)
    headers.set("transfer-encoding", "chunked");
  return response;
}

export const nodeHost: RouterHost = { createRouter, serve: serveNode };
