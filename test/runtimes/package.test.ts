import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { silentScript } from "../../src/simulator/script.ts";
import { handedOff, prefilled, words } from "./answers.ts";
import { Engines } from "./engines.ts";
import { ROOT, spawnRouter } from "./process.ts";
import { makeStage } from "./run.ts";
import { textOf } from "./scenarios/answers.ts";

const BIN = join(ROOT, "node_modules", ".bin");
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

/** A tool's output, or an error with it. */
async function run(command: string[], cwd: string): Promise<string> {
  const child = Bun.spawn(command, { cwd, stdout: "pipe", stderr: "pipe", env: { ...process.env, NO_COLOR: "1" } });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}\n${out}${err}`);
  return out;
}

/** What `npm install` of the tarball would leave, without a registry: the package unpacked, its dependencies beside it. */
describe("the package", () => {
  const home = mkdtempSync(join(tmpdir(), "prefill-router-package-"));
  const installed = join(home, "node_modules", "prefill-router");
  let tarball = "";

  beforeAll(async () => {
    const [packed] = JSON.parse(await run(["npm", "pack", "--json", "--silent", "--pack-destination", home], ROOT));
    tarball = join(home, packed.filename);
    mkdirSync(installed, { recursive: true });
    await run(["tar", "xzf", tarball, "-C", installed, "--strip-components=1"], home);
    for (const name of Object.keys(manifest.dependencies)) {
      const link = join(home, "node_modules", name);
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(join(ROOT, "node_modules", name), link);
    }
    writeFileSync(join(home, "package.json"), '{"type":"module"}');
  }, 60_000);

  afterAll(() => rmSync(home, { recursive: true, force: true }));

  test("publint and attw find nothing", async () => {
    expect(await run([join(BIN, "publint"), installed, "--strict", "--pack", "false"], home)).toContain("All good");
    await run([join(BIN, "attw"), tarball, "--profile", "esm-only", "--no-emoji"], home);
  }, 30_000);

  test("it holds JavaScript, types and the command, and neither sources nor tests", async () => {
    const files = (await run(["tar", "tzf", tarball], home)).trim().split("\n");
    expect(files).toContain("package/dist/index.js");
    expect(files).toContain("package/dist/index.d.ts");
    expect(files).toContain("package/bin/prefill-router.mjs");
    const strange = files.filter(
      (file) => /^package\/(?:src|test|bench|node_modules)\//.test(file) || /(?<!\.d)\.ts$/.test(file),
    );
    expect(strange).toEqual([]);
  });

  test("every export can be imported on Node, and makes routers", async () => {
    const names = Object.keys(manifest.exports).filter(
      (name) => name !== "./package.json" && name !== "./bun" && name !== "./deno",
    );
    const script = `
      for (const name of ${JSON.stringify(names)}) {
        const found = await import("prefill-router" + name.slice(1));
        console.log(name, Object.keys(found).some((key) => /^create|^consume|^default$/.test(key)));
      }`;
    const out = await run([join(BIN, "node"), "--input-type=module", "-e", script], home);
    expect(out.trim().split("\n")).toEqual(names.map((name) => `${name} true`));
  });

  test("as a library it needs nothing that Node 20 does not have: requests queue, clients leave", async () => {
    const engines = await new Engines().start();
    const queued = engines.scenario({ "vl-p": handedOff(), "vl-d": words("queued") });
    const left = engines.scenario({ "vl-p": handedOff(), "vl-d": silentScript("hang") });
    const script = `
      // What came with Node 22.
      delete Promise.withResolvers; delete Promise.try; delete Array.fromAsync; delete globalThis.Iterator;
      for (const name of ["union", "intersection", "difference", "symmetricDifference", "isSubsetOf", "isSupersetOf", "isDisjointFrom"])
        delete Set.prototype[name];
      const iterator = Object.getPrototypeOf(Object.getPrototypeOf([].values()));
      for (const name of Object.getOwnPropertyNames(iterator)) if (name !== "constructor") delete iterator[name];
      const { createRouter } = await import("prefill-router");
      const pool = { engine: "vllm", prefill: ["${engines.url("vl-p")}"], decode: ["${engines.url("vl-d")}"] };
      const limits = { concurrency: 1, queue: 2 };
      const router = createRouter({ config: { models: [{ id: "m", pools: [pool] }], limits } });
      const ask = (content, signal) => {
        const body = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content }] });
        const headers = { "content-type": "application/json" };
        return router.fetch(new Request("http://x/v1/chat/completions", { method: "POST", headers, body, signal }));
      };
      const leaves = ask("${left}", AbortSignal.timeout(300));
      const waits = ask("${queued}");
      console.log((await leaves).status, (await (await waits).text()).includes("queued"));
      await router.shutdown(5_000);
      process.exit(0);`;
    try {
      const out = await run([join(BIN, "node"), "--input-type=module", "-e", script], home);
      expect(out.trim()).toBe("499 true");
    } finally {
      await engines.stop();
    }
  }, 30_000);

  test("each runtime gets its own entry under the one name", async () => {
    const script = 'console.log(import.meta.resolve("prefill-router").split("/").pop())';
    writeFileSync(join(home, "entry.mjs"), script);
    expect((await run([join(BIN, "node"), "entry.mjs"], home)).trim()).toBe("node.js");
    expect((await run([join(BIN, "bun"), "entry.mjs"], home)).trim()).toBe("bun.js");
    expect((await run([join(BIN, "deno"), "run", "-A", "entry.mjs"], home)).trim()).toBe("deno.js");
  });

  test("its types serve a strict consumer, by node's rules and by a bundler's", async () => {
    writeFileSync(
      join(home, "consumer.ts"),
      `import { createRouter, Failure, type PrefillRouter } from "prefill-router";
import { serveNode } from "prefill-router/node";
import { createLambdaHandler } from "prefill-router/lambda";
import worker from "prefill-router/workers";
import { consumePrefillStream } from "prefill-router/prefill";
const router: PrefillRouter = createRouter({ config: { models: [] } });
const answer: Response | Promise<Response> = router.fetch(new Request("http://x/health"));
// @ts-expect-error a configuration is wanted
createRouter({});
export { answer, consumePrefillStream, createLambdaHandler, Failure, serveNode, worker };
`,
    );
    const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    const base = [
      "--noEmit",
      "--strict",
      "--target",
      "esnext",
      "--lib",
      "esnext,dom,dom.iterable,dom.asynciterable",
      "--types",
      "",
    ];
    // Our own declarations are checked once; by the second rules only what the consumer names.
    const rules = [
      ["--module", "nodenext", "--skipLibCheck", "false"],
      ["--module", "preserve", "--moduleResolution", "bundler", "--skipLibCheck", "true"],
    ];
    for (const rule of rules) await run([join(BIN, "node"), tsc, ...base, ...rule, "consumer.ts"], home);
  }, 60_000);

  test("the command runs on plain Node, without Bun", async () => {
    const node = join(BIN, "node");
    const env = { ...process.env, PATH: "/usr/bin:/bin", NO_COLOR: "1" };
    const child = Bun.spawn([node, join(installed, "bin", "prefill-router.mjs"), "demo", "--port", "0"], {
      cwd: home,
      stdout: "pipe",
      stderr: "pipe",
      env,
    });
    let out = "";
    for await (const bytes of child.stdout) {
      out += new TextDecoder().decode(bytes);
      if (out.includes("Stays up")) break;
    }
    child.kill("SIGTERM");
    expect(out).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+/);
    expect(out).toContain("→");
    expect(await child.exited).toBe(0);
  }, 30_000);

  test("Node's example serves from the installed package", async () => {
    const engines = await new Engines().start();
    copyFileSync(join(ROOT, "examples", "node", "server.mjs"), join(home, "server.mjs"));
    const env = { PREFILL: engines.url("sg-p"), DECODE: engines.url("sg-d"), PORT: "0" };
    const server = await spawnRouter("node", ["server.mjs"], env, home);
    try {
      const { ask } = makeStage("node", engines, server.port, server.port);
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": words("from ", "node") });
      await answer.done();
      expect(textOf(answer.events)).toBe("from node");
      server.signal("SIGTERM");
      expect(await server.exited).toBe(0);
    } finally {
      await server.stop();
      await engines.stop();
    }
  }, 30_000);
});
