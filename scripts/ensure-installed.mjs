// `npm run demo` and `npm test` must work from a fresh clone: install once, quietly, when something is missing.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

function npm(...args) {
  // stdout belongs to the command that follows.
  const done = spawnSync("npm", args, { cwd: root, stdio: ["ignore", 2, 2], shell: process.platform === "win32" });
  if (done.status !== 0) process.exit(done.status ?? 1);
}

/** Bun's binary is a short text until its install script has run, which a machine may have switched off. */
function bunIsThere() {
  try {
    const folder = join(root, "node_modules", "bun");
    const { bin } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return statSync(join(folder, bin.bun)).size > 1_000_000;
  } catch {
    return false;
  }
}

if (!existsSync(join(root, "node_modules", ".bin", "bun"))) {
  console.error("installing dependencies (once) …");
  npm("ci", "--no-audit", "--no-fund", "--loglevel=error");
}
if (!bunIsThere()) npm("rebuild", "bun", "--ignore-scripts=false", "--loglevel=error");
