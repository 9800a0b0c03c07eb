import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KEYS } from "./config.ts";
import type { RuntimeName } from "./scenario.ts";

export const ROOT = join(import.meta.dir, "..", "..");
const BIN = join(ROOT, "node_modules", ".bin");

const NO_PROXY = "http://127.0.0.1:9";

const LISTENING = /[Ll]istening on http:\/\/\S+:(\d+)|"event":"listen".*"port":(\d+)/;

/** A router in a process of its own. */
export class RouterProcess {
  port = 0;
  stdout = "";
  stderr = "";
  readonly exited: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #folder: string;

  constructor(file: string, args: readonly string[], folder: string, env: Record<string, string> = {}, cwd = ROOT) {
    const { PATH = "", HOME = "" } = process.env;
    this.#folder = folder;
    this.#child = spawn(file, args, {
      cwd,
      // A proxy that is not there: requests to engines must not ask it.
      env: { PATH: `${BIN}:${PATH}`, HOME, NO_COLOR: "1", HTTP_PROXY: NO_PROXY, http_proxy: NO_PROXY, ...KEYS, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    this.#child.stdout?.on("data", (bytes: Buffer) => {
      this.stdout += bytes;
    });
    this.#child.stderr?.on("data", (bytes: Buffer) => {
      this.stderr += bytes;
    });
    this.exited = new Promise((resolve) => this.#child.once("exit", (code) => resolve(code)));
  }

  async listening(): Promise<this> {
    let over: string | undefined;
    void this.exited.then((code) => {
      over = `exit code ${code}`;
    });
    for (const end = performance.now() + 15_000; performance.now() < end && over === undefined; ) {
      const found = LISTENING.exec(this.stdout + this.stderr);
      if (found !== null) {
        this.port = Number(found[1] ?? found[2]);
        return this;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`The router did not start: ${over ?? "no line"} ${this.stdout}${this.stderr}`);
  }

  signal(name: "SIGTERM"): void {
    this.#child.kill(name);
  }

  async stop(): Promise<void> {
    this.#killAll();
    await this.exited;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The whole group: `deno task` runs its command as a child, which would outlive it. */
  #killAll(): void {
    try {
      process.kill(-this.#child.pid!, "SIGKILL");
    } catch {
      // All have ended already.
    }
  }
}

/** Any command of a runtime that prints where it listens. */
export function spawnRouter(
  command: "bun" | "deno" | "node",
  args: readonly string[],
  env: Record<string, string>,
  cwd = ROOT,
): Promise<RouterProcess> {
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-"));
  return new RouterProcess(join(BIN, command), args, folder, env, cwd).listening();
}

/** Starts the runtime's own way of serving with a configuration. */
export async function startRouter(runtime: RuntimeName, config: Record<string, unknown>): Promise<RouterProcess> {
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-"));
  const file = join(folder, "router.json");
  writeFileSync(file, JSON.stringify(config));
  const serve = ["src/cli.ts", "serve", "--config", file];
  switch (runtime) {
    case "bun":
      return new RouterProcess(join(BIN, "bun"), serve, folder).listening();
    case "node":
      return new RouterProcess(join(BIN, "node"), serve, folder).listening();
    case "deno":
      return new RouterProcess(join(BIN, "deno"), ["task", "--quiet", ...serve.slice(1)], folder).listening();
    case "workerd": {
      const capnp = await workerdConfig(folder, config);
      return new RouterProcess(join(BIN, "workerd"), ["serve", capnp, "--control-fd=1"], folder).listening();
    }
  }
}

/** The Worker as wrangler would upload it. */
export async function bundleWorker(entry = "src/runtime/workers-entry.ts", minify = false): Promise<string> {
  const built = await Bun.build({
    entrypoints: [join(ROOT, entry)],
    target: "browser",
    format: "esm",
    external: ["cloudflare:*"],
    conditions: ["workerd", "worker"],
    minify,
  });
  return (await built.outputs[0]?.text()) ?? "";
}

let bundle: Promise<string> | undefined;

/** The same date and flags as wrangler.toml has; what it says is read, not repeated. */
export async function workerdConfig(
  folder: string,
  config: Record<string, unknown>,
  more: { bindings?: string; services?: string; script?: string; worker?: string; sockets?: string } = {},
): Promise<string> {
  bundle ??= bundleWorker();
  const wrangler = (await Bun.file(join(ROOT, "wrangler.toml")).text()) as string;
  const date = /^compatibility_date = "(.+)"$/m.exec(wrangler)?.[1];
  const flags = /^compatibility_flags = (\[.+\])$/m.exec(wrangler)?.[1];
  writeFileSync(join(folder, "worker.js"), more.script ?? (await bundle));
  writeFileSync(join(folder, "config.txt"), JSON.stringify(config));
  const keys = Object.entries(KEYS).map(([name, value]) => `(name = "${name}", text = "${value}")`);
  const file = join(folder, "router.capnp");
  writeFileSync(
    file,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "router", worker = (
      modules = [(name = "worker.js", esModule = embed "worker.js")],
      compatibilityDate = "${date}", compatibilityFlags = ${flags},
      bindings = [(name = "ROUTER_CONFIG", text = embed "config.txt"), ${keys.join(", ")}${more.bindings ?? ""}],
      ${more.worker ?? ""}
    )),
    (name = "internet", network = (allow = ["private", "public", "local"], tlsOptions = (trustBrowserCas = true)))${more.services ?? ""}
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "router")${more.sockets ?? ""}],
);
`,
  );
  return file;
}
