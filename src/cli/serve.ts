import { raiseConnectionCap } from "../runtime/bun-connection-cap.ts";
import { startHttpThread } from "../runtime/bun-http-thread.ts";
import { atMost, type RouterServer } from "../runtime/server.ts";
import { watchFile } from "../runtime/watch-file.ts";
import { BatchedSink } from "../telemetry/batched-sink.ts";
import type { ServeArguments } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { configFile, loadServeConfig } from "./load.ts";
import { reloader } from "./reload.ts";
import { runtimeHost } from "./runtime-host.ts";

/** Log lines are written together: a write per request would cost more than the log. */
const FLUSH_MS = 100;
/** A response that was ended gets so long to reach its client before the process goes. */
const LAST_WRITES_MS = 1_000;

/** As for a bad configuration: nothing is listening (contract section 1). */
const EXIT_NO_PORT = 1;

/** Runs the router until a signal. Resolves with the exit code: 0 after a clean SIGTERM, 1 when the address cannot be listened on. */
export async function runServe({ args, env, output }: CommandContext & { args: ServeArguments }): Promise<number> {
  if ("Bun" in globalThis) {
    raiseConnectionCap();
    await startHttpThread();
  }
  const { config, secrets, warnings } = await loadServeConfig(args, env);
  // Whoever reads the log may go; on Node a pipe without a reader would take the process along.
  process.stdout.on("error", nothing);
  process.stderr.on("error", nothing);
  const sink = new BatchedSink((text) => process.stdout.write(text));
  const flushing = setInterval(() => sink.flush(), FLUSH_MS);
  const host = await runtimeHost();
  const router = host.createRouter({ config, secrets, sink: sink.push });
  for (const warning of warnings) process.stderr.write(`${warning}\n`);
  let server: RouterServer;
  try {
    server = await host.serve(router, { reusePort: args.reusePort });
  } catch (error) {
    const { listen } = router.config;
    clearInterval(flushing);
    output.error(`cannot listen on ${bracketed(listen.host)}:${listen.port}: ${(error as Error).message}`);
    return EXIT_NO_PORT;
  }
  const reload = reloader(() => loadServeConfig(args, env), router, output.error);
  process.on("SIGHUP", () => void reload("SIGHUP"));
  const file = configFile(args, env);
  const stopWatching = file === undefined ? nothing : watchFile(file, () => void reload("the file has changed"));
  process.stdout.write(`listening on http://${bracketed(server.hostname)}:${server.port}\n`);
  await signal();
  stopWatching();
  process.once("SIGINT", leaveAtOnce).once("SIGTERM", leaveAtOnce);
  router.telemetry.log.event("info", "shutting_down", { running: router.active() });
  await router.shutdown(router.config.timeouts.shutdownMs);
  await server.stop(LAST_WRITES_MS);
  clearInterval(flushing);
  sink.flush();
  // The last lines of the log, unless nobody takes them. Nothing of value is left then; sockets to engines that are kept alive would hold the process for seconds.
  await atMost(new Promise<void>((resolve) => process.stdout.write("", () => resolve())), LAST_WRITES_MS);
  process.exit(0);
}

function signal(): Promise<void> {
  return new Promise((resolve) => {
    process.once("SIGTERM", () => resolve()).once("SIGINT", () => resolve());
  });
}

function nothing(): void {}

function leaveAtOnce(): never {
  process.exit(1);
}

function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
