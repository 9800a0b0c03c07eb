import { expect, test } from "bun:test";
import { Glob } from "bun";

const ROOT = new URL("../../", import.meta.url);
const IMPORTS = /(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)["']([^"']+)["']/g;

test("src/prefill imports nothing outside itself", async () => {
  const files = [...new Glob("**/*.ts").scanSync(new URL("src/prefill/", ROOT).pathname)];
  expect(files.length).toBeGreaterThan(5);
  let found = 0;
  for (const file of files) {
    const here = new URL(`src/prefill/${file}`, ROOT);
    for (const [, specifier = ""] of (await Bun.file(here).text()).matchAll(IMPORTS)) {
      found += 1;
      expect(`${file}: ${specifier}`).toMatch(/: \.\.?\//);
      expect(new URL(specifier, here).pathname).toStartWith(new URL("src/prefill/", ROOT).pathname);
    }
  }
  // The pattern still sees imports: the files import one another.
  expect(found).toBeGreaterThan(10);
});

test("src/prefill names no runtime's own API", async () => {
  for (const file of new Glob("**/*.ts").scanSync(new URL("src/prefill/", ROOT).pathname)) {
    const code = (await Bun.file(new URL(`src/prefill/${file}`, ROOT)).text()).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    expect(`${file}: ${code.match(/\b(?:Bun|Deno|process|Buffer)\.|node:/)?.[0]}`).toBe(`${file}: undefined`);
  }
});

test("the embedding example has at most 15 lines of code, and tells the client of prefill's failure", async () => {
  const example = new URL("examples/embedded-heart.ts", ROOT);
  const lines = (await Bun.file(example).text()).split("\n").filter((line) => !/^\s*(\/\/.*)?$/.test(line));
  expect(lines.length).toBeLessThanOrEqual(15);

  const run = Bun.spawn([process.execPath, example.pathname], { cwd: ROOT.pathname, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(run.stdout).text(), new Response(run.stderr).text()]);
  expect(err).toBe("");
  expect(await run.exited).toBe(0);
  const failure = "Prefill router returned error in output stream: KV transfer timed out";
  expect(out.trim().split("\n")).toEqual(["handoff", `cancelled: PrefillError: ${failure}`, failure]);
});
