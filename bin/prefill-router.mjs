#!/usr/bin/env node
// The package's command. It runs under whatever started it and hands over to Bun, the runtime the router is made for: the one
// installed beside the package, else the one on PATH. Without a Bun, Node serves: a package has plain JavaScript, a checkout needs a Node
// that reads TypeScript.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const OLDEST_BUN = [1, 4, 4];
const source = fileURLToPath(new URL("../src/cli.ts", import.meta.url));
const entry = existsSync(source) ? source : fileURLToPath(new URL("../dist/cli.js", import.meta.url));

/** Bun as a package's dependency. Its binary is a short text until its install script has run. */
function installedBun() {
  try {
    const manifest = createRequire(import.meta.url).resolve("bun/package.json");
    const file = join(dirname(manifest), JSON.parse(readFileSync(manifest, "utf8")).bin.bun);
    return statSync(file).size > 1_000_000 ? file : undefined;
  } catch {
    return undefined;
  }
}

function bunOnPath() {
  const names = process.platform === "win32" ? ["bun.exe"] : ["bun"];
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of names) {
      const file = join(folder, name);
      if (folder !== "" && existsSync(file)) return file;
    }
  }
  return undefined;
}

/** Before 1.4.4 Bun leaks streams and ignores back-pressure, so an older one is as good as none. */
function isRecent(file) {
  const said = spawnSync(file, ["--version"], { encoding: "utf8" }).stdout ?? "";
  const version = said.trim().split(/[.-]/).map(Number);
  for (const [i, least] of OLDEST_BUN.entries()) {
    if (version[i] !== least) return version[i] > least;
  }
  return true;
}

function handOver(file) {
  const args = [entry, ...process.argv.slice(2)];
  // Keeps the pid, so that a supervisor's signals reach the router itself.
  if (typeof process.execve === "function" && process.platform !== "win32") process.execve(file, [file, ...args], process.env);
  const child = spawn(file, args, { stdio: "inherit" });
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // A terminal sends Ctrl-C to both; passing it on would be the second one, which ends the router at once.
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  child.on("error", (error) => {
    console.error(`prefill-router: ${file} cannot be started: ${error.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const onPath = bunOnPath();
const bun = installedBun() ?? (onPath !== undefined && isRecent(onPath) ? onPath : undefined);
if (process.versions.bun !== undefined) await import(entry);
else if (bun !== undefined) handOver(bun);
else if (entry !== source || process.features.typescript) await import(entry);
else {
  const found = onPath === undefined ? "none is installed" : `the one on PATH (${onPath}) is older`;
  console.error(
    `prefill-router: wanted Bun ${OLDEST_BUN.join(".")} or newer, but ${found}; install it with "npm install bun", or see https://bun.com`,
  );
  process.exit(1);
}
