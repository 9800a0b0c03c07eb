// What a package holds: plain JavaScript and its types in dist/, which Node cannot make of TypeScript inside node_modules.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
if (!existsSync(tsc)) {
  console.error("TypeScript is not installed here: npm ci");
  process.exit(1);
}
rmSync(join(root, "dist"), { recursive: true, force: true });
const built = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
process.exit(built.status ?? 1);
