/** The most Bun accepts. Counts requests by `fetch` only: legs over TLS, and what is asked of engines besides legs. */
const CAP = "65336";
const VARIABLE = "BUN_CONFIG_MAX_HTTP_REQUESTS";

/**
 * Bun lets 256 outgoing requests run per process and queues the rest without a word; only the real environment variable changes that,
 * and only at start. So the process replaces itself, keeping its pid, with the variable set. A value somebody has chosen is left alone.
 */
export function raiseConnectionCap(): void {
  if (process.env[VARIABLE] !== undefined) return;
  const execve = (
    process as { execve?: (file: string, args: string[], env: Record<string, string | undefined>) => never }
  ).execve;
  if (execve === undefined) return;
  // A binary of `bun build --compile` is its own script, under a name that is no file.
  const own = process.argv[1]?.startsWith("/$bunfs/") === true ? 2 : 1;
  execve(process.execPath, [process.execPath, ...process.execArgv, ...process.argv.slice(own)], {
    ...process.env,
    [VARIABLE]: CAP,
  });
}

/** How many requests to engines may run at once. */
export function connectionCap(): number {
  return Number(process.env[VARIABLE] ?? 256);
}
