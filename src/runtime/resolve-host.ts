import { lookup } from "node:dns/promises";

/**
 * All addresses of a host as the system sees it (`ResolveHost`): hosts file, search domains and cluster DNS count, as they do for
 * connections. Works on Bun, Deno and Node. Rejects when there is none.
 */
export async function resolveHost(host: string): Promise<string[]> {
  const found = await lookup(host, { all: true });
  // Both families are asked for; one record can come once per socket type.
  return [...new Set(found.map(({ address }) => address))];
}
