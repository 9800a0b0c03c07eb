import type { WorkerConfig } from "../config/schema.ts";
import { DNS_PREFIX, urlHost } from "../config/worker-url.ts";

/** Written as an IPv4 or IPv6 address without brackets; a zone (`fe80::1%eth0`) means something on its own machine only. */
const ADDRESS = /^(?:\d+(?:\.\d+){3}|[\da-f]*:[\da-f:.]+)$/i;

/**
 * The workers' URLs that a `dns+` URL and the addresses of its host make. Sorted, so that numbers do not depend on the order in which a
 * server rotates its records. What is no address that can stand in a URL is left out.
 */
export function memberUrls(dnsUrl: string, addresses: readonly string[]): Set<string> {
  return new Set(addresses.flatMap((address) => memberUrl(dnsUrl, address) ?? []).sort());
}

/** An entry's settings for one of its addresses. */
export function memberConfig(config: WorkerConfig, url: string, name: string): WorkerConfig {
  // Decode has to reach this very prefill worker, not any that the name stands for; another host was configured on purpose.
  const bootstrapHost = config.bootstrapHost === urlHost(config.url) ? urlHost(url) : config.bootstrapHost;
  return { ...config, url, name, bootstrapHost };
}

function memberUrl(dnsUrl: string, address: string): string | undefined {
  // Looked at first: a URL whose host is set to what cannot be one keeps the host it has, here the name itself, and says nothing.
  const host = ADDRESS.test(address) ? URL.parse(`http://${bracketed(address)}`)?.hostname : undefined;
  if (host === undefined) return undefined;
  const url = new URL(dnsUrl.slice(DNS_PREFIX.length));
  url.hostname = host;
  return url.origin + url.pathname.replace(/\/+$/, "");
}

function bracketed(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}
