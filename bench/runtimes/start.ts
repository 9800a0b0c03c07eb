import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT, workerdConfig } from "../../test/runtimes/process.ts";
import { MODEL } from "../stand/engine/replies.ts";
import type { Command } from "../stand/router-process.ts";
import { ROUTER_PORT, urlsOf } from "../stand/sides.ts";

export const RUNTIMES = ["bun", "node", "deno", "workerd"] as const;
export type Runtime = (typeof RUNTIMES)[number];

const BIN = join(ROOT, "node_modules", ".bin");

export function benchConfig(): Record<string, unknown> {
  return {
    listen: { host: "127.0.0.1", port: ROUTER_PORT },
    models: [
      {
        id: MODEL,
        pools: [
          {
            name: "bench",
            engine: "sglang",
            prefill: urlsOf("sglang", "prefill").map((url) => ({ url, bootstrapPort: 8998 })),
            decode: urlsOf("sglang", "decode").map((url) => ({ url })),
          },
        ],
      },
    ],
    // Not the default on Workers, and the same choice on each runtime.
    policy: { prefill: "consistent-hash", decode: "consistent-hash" },
    log: { level: "warn" },
  };
}

/** How a script is served by workerd at the bench's port. */
export async function workerdCommand(script: string): Promise<Command> {
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-bench-"));
  const file = await workerdConfig(folder, benchConfig(), { script });
  const text = await Bun.file(file).text();
  writeFileSync(file, text.replace("127.0.0.1:0", `127.0.0.1:${ROUTER_PORT}`));
  return { command: [join(BIN, "workerd"), "serve", file], cwd: ROOT };
}

/** The router as each runtime serves it; `script` is the bundled Worker. */
export async function runtimeCommand(runtime: Runtime, script: string): Promise<Command> {
  if (runtime === "workerd") return workerdCommand(script);
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-bench-"));
  const file = join(folder, "router.json");
  writeFileSync(file, JSON.stringify(benchConfig()));
  const serve = ["serve", "--config", file];
  const command =
    runtime === "deno"
      ? [join(BIN, "deno"), "task", "--quiet", ...serve]
      : [join(BIN, runtime), join(ROOT, "src", "cli.ts"), ...serve];
  return { command, cwd: ROOT };
}
