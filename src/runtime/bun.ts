import { createRouter, type PrefillRouter, type RouterOptions } from "../create-router.ts";
import type { Transport } from "../legs/transport.ts";

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

/** A router with Bun's ways of doing things. */
export function createBunRouter(options: RouterOptions): PrefillRouter {
  return createRouter({ transport: bunTransport, ...options });
}

export function serveBun(router: PrefillRouter): BunServer {
  const { host, port } = router.config.listen;
  const server = Bun.serve({
    hostname: host,
    port,
    // Bun drops connections that are silent for ten seconds otherwise.
    idleTimeout: 0,
    // The limit is ours (413 as JSON); Bun's would be a bare text.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    fetch: (request) => router.fetch(request),
  });
  const { intervalMs } = router.config.health;
  const probes =
    intervalMs > 0
      ? setInterval(() => void router.prober.run(), Math.min(1_000, Math.max(50, intervalMs / 4)))
      : undefined;
  if (intervalMs > 0) router.prober.run();
  return {
    router,
    hostname: server.hostname ?? host,
    port: server.port ?? port,
    async stop(ms) {
      clearInterval(probes);
      const stopped = server.stop();
      await Promise.race([stopped, new Promise((resolve) => setTimeout(resolve, ms))]);
      await server.stop(true);
    },
  };
}
