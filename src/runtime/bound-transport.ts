import { ConfigError } from "../config/load.ts";
import type { RouterConfig } from "../config/schema.ts";
import type { Transport } from "../legs/transport.ts";

/** A service binding, a VPC service, anything that answers requests in place of the network. */
export interface Fetcher {
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/**
 * Sends the requests of named workers through bindings, all others through `base`. The worker's url stays what the binding sees; it
 * need not resolve anywhere. Throws a `ConfigError` for a name no worker has: such a worker would be asked over the network instead.
 */
export function boundTransport(
  base: Transport,
  config: RouterConfig,
  bindings: Readonly<Record<string, Fetcher>>,
  unpacked: (response: Response) => Response,
): Transport {
  const bound = boundUrls(config, bindings);
  if (bound.length === 0) return base;
  const find = (url: string): Fetcher | undefined => bound.find(([prefix]) => url.startsWith(prefix))?.[1];
  return {
    fetch(url, request) {
      const fetcher = find(url);
      if (fetcher === undefined) return base.fetch(url, request);
      return fetcher.fetch(url, { ...request, redirect: "manual" }).then(unpacked);
    },
    ...(base.connects === undefined
      ? {}
      : {
          // A binding is no TCP connection: whether anybody is there shows in its answer only.
          connects: async (url: string, ms: number) =>
            find(url) !== undefined || (await base.connects?.(url, ms)) !== false,
        }),
  };
}

function boundUrls(config: RouterConfig, bindings: Readonly<Record<string, Fetcher>>): [string, Fetcher][] {
  const urls = new Map<string, string>();
  for (const { pools } of config.models) {
    for (const pool of pools) {
      for (const worker of [...pool.prefill, ...pool.decode, ...pool.workers]) urls.set(worker.name, worker.url);
    }
  }
  return Object.entries(bindings).map(([name, fetcher]) => {
    const url = urls.get(name);
    if (url === undefined) {
      throw new ConfigError([{ path: `bindings.${name}`, message: "wanted the name of a configured worker" }]);
    }
    if (typeof fetcher?.fetch !== "function") {
      throw new ConfigError([{ path: `bindings.${name}`, message: "wanted a binding with a fetch method" }]);
    }
    return [`${url}/`, fetcher];
  });
}
