import { show } from "./wanted.ts";

/** Prefix of addresses the fleet expands to one worker per address record of the host. */
export const DNS_PREFIX = "dns+";

/**
 * Reads a worker's address. Two spellings of one address come out equal (default port, trailing slash, case, IPv6 zeros), so
 * that they are one worker (contract section 2). The problem's text says what was wanted and what came.
 */
export function parseWorkerUrl(input: string): { url: string } | { problem: string } {
  const prefix = input.startsWith(DNS_PREFIX) ? DNS_PREFIX : "";
  const url = URL.parse(input.slice(prefix.length));
  const example = "wanted a URL such as http://10.0.0.1:30000";
  // "localhost:30000" parses as the scheme "localhost:"; the slashes tell it from an address.
  if (url === null || !/^[a-z]+:\/\//i.test(input.slice(prefix.length)))
    return { problem: `${example}, got ${show(input)}` };
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return { problem: `${example}, got the scheme "${url.protocol.slice(0, -1)}"` };
  }
  // Not shown: it holds a password. A header of the worker's own carries its key (apiKeyEnv).
  if (url.username !== "" || url.password !== "") {
    return { problem: `${example}, got one with user info (name an environment variable in apiKeyEnv instead)` };
  }
  if (url.search !== "" || url.hash !== "" || /[?#]/.test(input)) {
    return { problem: `${example}, got one with a query or fragment: ${show(input)}` };
  }
  if (url.port === "0") return { problem: `${example}, got port 0` };
  if (prefix !== "" && (url.hostname.startsWith("[") || /^[\d.]+$/.test(url.hostname))) {
    return { problem: `wanted a host name after ${DNS_PREFIX}, got the address ${show(url.hostname)}` };
  }
  return { url: prefix + url.origin + url.pathname.replace(/\/+$/, "") };
}

/** Host of a worker's normalised URL without its port; IPv6 in brackets. */
export function urlHost(url: string): string {
  return new URL(url.startsWith(DNS_PREFIX) ? url.slice(DNS_PREFIX.length) : url).hostname;
}
