// The dashboard is tested in the browser that Debian ships. Installs it when it is not there; as root, or with sudo.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

const PATH = process.env.CHROMIUM ?? "/usr/bin/chromium";

if (!existsSync(PATH)) {
  console.error("installing chromium (once) …");
  run("apt-get", "update", "-qq");
  run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core", "fonts-liberation");
}

function run(...command) {
  const [program, ...rest] = process.getuid?.() === 0 ? command : ["sudo", ...command];
  const { status } = spawnSync(program, rest, {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  });
  if (status !== 0) process.exit(status ?? 1);
}
