import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { Transport } from "../legs/transport.ts";
import { resolveHost } from "./resolve-host.ts";

/** Bun's own limits are off: silence, prompts of minutes and many streams are what a router is for; its deadlines are our own. */
const OWN_LIMITS = { timeout: false, proxy: false, redirect: "manual" } as const;

export const bunTransport: Transport = {
  fetch: (url, request) => fetch(url, { ...request, ...OWN_LIMITS } as unknown as RequestInit),
  connects: connectsTo,
};

/** `fetch` cannot bound a connect: one bare TCP connection tells whether anybody is there. */
async function connectsTo(url: string, ms: number): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url);
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
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port) || (protocol === "https:" ? 443 : 80),
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

export interface BunServer {
  router: PrefillRouter;
  hostname: string;
  port: number;
  /** Stops listening; resolves when the last response is written, or after `ms`. */
  stop(ms: number): Promise<void>;
}

/** How often the router looks what is due. Intervals are in seconds; the least that health checks know is about this. */
const TEND_MS = 100;

/** A router with Bun's ways of doing things. */
export function createBunRouter(options: RouterOptions): PrefillRouter {
  return createRouter({ transport: bunTransport, resolveHost, ...options });
}

export interface ServeBunOptions {
  /** Other processes may listen on the same port; the system spreads the connections (Linux). */
  reusePort?: boolean;
}

export function serveBun(router: PrefillRouter, { reusePort = false }: ServeBunOptions = {}): BunServer {
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
  const tending = setInterval(tend, TEND_MS);
  tend();
  return {
    router,
    hostname: server.hostname ?? host,
    port: server.port ?? port,
    async stop(ms) {
      clearInterval(tending);
      const stopped = server.stop();
      await Promise.race([stopped, new Promise((resolve) => setTimeout(resolve, ms))]);
      await server.stop(true);
    },
  };

  function tend(): void {
    void router.control.tend();
  }
}
