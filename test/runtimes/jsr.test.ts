import { expect, test } from "bun:test";
import { join } from "node:path";

const root = join(import.meta.dir, "../..");

test("the package for JSR has explicit types: a dry run of publishing it finds nothing to complain of", async () => {
  const deno = Bun.spawn([join(root, "node_modules/.bin/deno"), "publish", "--dry-run", "--allow-dirty"], {
    cwd: root,
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, NO_COLOR: "1" },
  });
  const [code, said] = await Promise.all([deno.exited, new Response(deno.stderr).text()]);
  expect(said).not.toContain("error[");
  expect(code).toBe(0);
}, 60_000);
