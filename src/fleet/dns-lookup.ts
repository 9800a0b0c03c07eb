import { urlHost } from "../config/worker-url.ts";
import { memberUrls } from "./dns-member.ts";

/** All addresses of a host name, IPv4 and IPv6 without brackets. May reject. The runtime's; absent where a runtime has no DNS. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

/** What a name stands for now. `reason`: why it is nobody. */
export interface Listing {
  urls: ReadonlySet<string>;
  reason: string;
}

/** The host of a `dns+` URL, as it is looked up and logged. */
export function hostOf(dnsUrl: string): string {
  return urlHost(dnsUrl).replace(/^\[|\]$/g, "");
}

/** The workers' URLs that the name in a `dns+` URL stands for. Never rejects. */
export async function lookUp(resolve: ResolveHost, dnsUrl: string): Promise<Listing> {
  try {
    const addresses = await resolve(hostOf(dnsUrl));
    const what = addresses.length > 0 ? "addresses that can stand in a URL" : "addresses";
    return { urls: memberUrls(dnsUrl, addresses), reason: `it has no ${what}` };
  } catch (error) {
    return { urls: new Set(), reason: codeOf(error) };
  }
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : error instanceof Error ? error.message : String(error);
}
