/** Where a url leads, as a connection and a request line need it. */
export interface Target {
  /** For the `Host` header, and what connections are kept by. */
  host: string;
  hostname: string;
  port: number;
  /** A request's first lines, on a connection that is kept and on one that is not. */
  start: string;
  startClosing: string;
}

/** Workers and paths are few; this only keeps urls that change all the time from piling up. */
const KEPT = 4_096;
const targets = new Map<string, Target | undefined>();

/** `undefined` where it is not plain HTTP. */
export function targetOf(url: string): Target | undefined {
  let target = targets.get(url);
  if (target === undefined && !targets.has(url)) {
    target = parse(url);
    if (targets.size >= KEPT) targets.clear();
    targets.set(url, target);
  }
  return target;
}

function parse(url: string): Target | undefined {
  const { protocol, username, password, host, hostname, port, pathname, search } = new URL(url);
  if (protocol !== "http:" || username !== "" || password !== "") return undefined;
  const start = `POST ${pathname}${search} HTTP/1.1\r\nhost: ${host}\r\nconnection: `;
  return {
    host,
    // A socket wants an IPv6 address without its brackets.
    hostname: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
    port: port === "" ? 80 : Number(port),
    start: `${start}keep-alive\r\n`,
    startClosing: `${start}close\r\n`,
  };
}
