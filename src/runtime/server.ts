import type { PrefillRouter, RouterOptions } from "../create-router.ts";

/** A router that listens, whatever the runtime. */
export interface RouterServer {
  router: PrefillRouter;
  hostname: string;
  port: number;
  /** Stops listening; resolves when the last response is written, or after `ms`. */
  stop(ms: number): Promise<void>;
}

export interface ServeOptions {
  /** Other processes may listen on the same port; the system spreads the connections (Linux). */
  reusePort?: boolean;
}

/** What a runtime with a process of its own offers to the command line. */
export interface RouterHost {
  createRouter(options: RouterOptions): PrefillRouter;
  /** Rejects when the address cannot be listened on. */
  serve(router: PrefillRouter, options?: ServeOptions): Promise<RouterServer>;
}

/** How often the router looks what is due. Intervals are in seconds; the least that health checks know is about this. */
const TEND_MS = 100;

/** Probes and lookups by a timer from now on, and no longer with requests. Returns what stops it. */
export function tendByTimer(router: PrefillRouter): () => void {
  router.tendsWithRequests = false;
  const tend = () => void router.control.tend();
  const timer = setInterval(tend, TEND_MS);
  tend();
  return () => clearInterval(timer);
}

/** `[::1]` of a URL → the host a socket wants, and the port with its scheme's default. */
export function socketAddress(url: string): { hostname: string; port: number } {
  const { hostname, port, protocol } = new URL(url);
  return {
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port) || (protocol === "https:" ? 443 : 80),
  };
}

/** Resolves with `false` when `opening` has not resolved within `ms`, or rejects; what opens later is closed all the same. */
export function opensWithin(opening: Promise<{ close(): void }>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    opening.then(
      (connection) => {
        connection.close();
        clearTimeout(timer);
        resolve(true);
      },
      () => {
        clearTimeout(timer);
        resolve(false);
      },
    );
  });
}

/** Resolves after `ms`, or as soon as `stopped` does. */
export async function atMost(stopped: Promise<unknown>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([stopped, limit]);
  clearTimeout(timer);
}
