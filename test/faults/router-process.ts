import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A router in a process of its own: Bun's cap on outgoing requests (256) is lifted only at the start of one, and its memory is its own. */
export interface RouterProcess {
  port: number;
  /** Sum over the labels of a metric, by its name without prefix. Throws when there is none. */
  metric(name: string): Promise<number>;
  /** Waits until no worker has anything in hand. */
  rests(ms: number): Promise<void>;
  /** Resident memory in bytes; undefined where the system has no /proc. */
  rss(): Promise<number | undefined>;
  stop(): Promise<void>;
}

/** Starts `serve` with one SGLang pool. */
export async function startRouter(prefillUrl: string, decodeUrl: string, timeouts: object): Promise<RouterProcess> {
  const folder = await mkdtemp(join(tmpdir(), "faults-"));
  const file = join(folder, "router.json");
  const pool = { name: "p", engine: "sglang", prefill: [{ url: prefillUrl }], decode: [{ url: decodeUrl }] };
  const config = {
    listen: { port: 0 },
    models: [{ id: "m", pools: [pool] }],
    timeouts,
    health: { intervalMs: 0 },
    log: { level: "silent" },
  };
  await writeFile(file, JSON.stringify(config));
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _, ...env } = process.env;
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../src/cli.ts"), "serve", "--config", file], {
    env,
    stdout: "pipe",
    stderr: "inherit",
  });
  const port = await listening(child.stdout);

  async function metric(name: string): Promise<number> {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const lines = text.split("\n").filter((line) => /^prefill_router_(\w+)/.exec(line)?.[1] === name);
    if (lines.length === 0) throw new Error(`There is no metric ${name}`);
    return lines.reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  }

  return {
    port,
    metric,
    async rests(ms) {
      const end = performance.now() + ms;
      for (;;) {
        const load = await metric("worker_in_flight");
        if (load === 0) return;
        if (performance.now() > end) throw new Error(`${load} requests are still in hand after ${ms} ms`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async rss() {
      const status = await readFile(`/proc/${child.pid}/status`, "utf8").catch(() => "");
      const kib = /^VmRSS:\s+(\d+) kB/m.exec(status)?.[1];
      return kib === undefined ? undefined : Number(kib) * 1_024;
    },
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      await rm(folder, { recursive: true });
    },
  };
}

async function listening(out: ReadableStream<Uint8Array>): Promise<number> {
  let text = "";
  for await (const bytes of out) {
    text += Buffer.from(bytes).toString();
    const port = /listening on http:\/\/\S+:(\d+)/.exec(text)?.[1];
    if (port !== undefined) return Number(port);
  }
  throw new Error(`The router did not start: ${text}`);
}
