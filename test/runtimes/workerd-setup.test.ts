import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { DONE, delta, prefilled, role, stream } from "./answers.ts";
import { eventually } from "./client.ts";
import { plainConfig } from "./config.ts";
import { Engines } from "./engines.ts";
import { bundleWorker, ROOT, RouterProcess, workerdConfig } from "./process.ts";
import { makeStage } from "./run.ts";
import { textOf } from "./scenarios/answers.ts";

/** A Worker on the free plan may have a megabyte; a router should be a fraction of it. */
const BUNDLE_BYTES = 300_000;

async function startWorkerd(...args: Parameters<typeof workerdConfig> extends [string, ...infer R] ? R : never) {
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-"));
  const capnp = await workerdConfig(folder, ...args);
  return new RouterProcess(
    join(ROOT, "node_modules/.bin/workerd"),
    ["serve", capnp, "--control-fd=1"],
    folder,
  ).listening();
}

describe("workerd", () => {
  const engines = new Engines();
  beforeAll(async () => void (await engines.start()));
  afterAll(() => engines.stop());

  test("a bad configuration answers 500 and says in the log what is wrong", async () => {
    const router = await startWorkerd({ ...plainConfig(engines), nope: 1 });
    try {
      const { get } = makeStage("workerd", engines, router.port, router.port);
      const answer = await get("/health");
      expect([answer.status, answer.error.code]).toEqual([500, "internal"]);
      // Its log takes another way than its answer.
      await eventually("the log says so", () => (router.stdout + router.stderr).includes("nope"));
    } finally {
      await router.stop();
    }
  });

  test("decode behind a service binding: its url need not resolve anywhere", async () => {
    const host = new URL(engines.url("sg-d")).host;
    const prefill = [{ name: "p", url: engines.url("sg-p") }];
    const decode = [{ name: "d", url: "http://decode.nowhere.invalid" }];
    const config = { models: [{ id: "sg", pools: [{ engine: "sglang", prefill, decode }] }] };
    const router = await startWorkerd(config, {
      bindings: `, (name = "ROUTER_BINDINGS", text = "{\\"d\\":\\"DECODE\\"}"), (name = "DECODE", service = "decode")`,
      services: `, (name = "decode", external = (address = "${host}", http = ()))`,
    });
    try {
      const { ask } = makeStage("workerd", engines, router.port, router.port);
      const sent = [role(), delta("bound"), delta("", "stop"), DONE];
      const { answer, seen } = ask("sg", { "sg-p": prefilled(), "sg-d": stream(sent) });
      await answer.done();
      expect([answer.status, textOf(answer.events)]).toEqual([200, "bound"]);
      expect(seen("sg-d")[0]!.headers.get("host")).toBe("decode.nowhere.invalid");
    } finally {
      await router.stop();
    }
  });

  test("a router may be made while the module is loaded, keys and all", async () => {
    const pool = { engine: "sglang", prefill: [{ url: engines.url("sg-p") }], decode: [{ url: engines.url("sg-d") }] };
    const auth = { clientKeys: [{ name: "team", keyEnv: "TEAM_KEY" }] };
    const script = await bundleWorker("test/runtimes/fixtures/module-scope-worker.ts");
    const router = await startWorkerd({ models: [{ id: "sg", pools: [pool] }], auth }, { script });
    try {
      const { askLively } = makeStage("workerd", engines, router.port, router.port);
      const all = Array.from({ length: 10 }, async () => {
        const sent = [role(), delta("early"), delta("", "stop"), DONE];
        const { answer } = askLively("sg", { "sg-p": prefilled(), "sg-d": stream(sent) });
        await answer.done();
        expect([answer.status, textOf(answer.events)]).toEqual([200, "early"]);
      });
      await Promise.all(all);
      expect(router.stderr).toBe("");
    } finally {
      await router.stop();
    }
  });

  test("a Worker of one's own: the router in a Hono app, under a path", async () => {
    const script = await bundleWorker("examples/workers/worker.ts");
    const config = { models: [] };
    const router = await startWorkerd(config, {
      script,
      bindings: `, (name = "PREFILL", text = "${engines.url("sg-p")}"), (name = "DECODE", text = "${engines.url("sg-d")}")`,
    });
    try {
      const { ask, get } = makeStage("workerd", engines, router.port, router.port);
      expect((await get("/llm/health")).status).toBe(200);
      const sent = [role(), delta("mounted"), delta("", "stop"), DONE];
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": stream(sent) }, { path: "/llm/v1/chat/completions" });
      await answer.done();
      expect([answer.status, textOf(answer.events)]).toEqual([200, "mounted"]);
    } finally {
      await router.stop();
    }
  });

  test("the bundle stays under 300 KB, compressed", async () => {
    const bundle = await bundleWorker("src/runtime/workers-entry.ts", true);
    expect(gzipSync(bundle).length).toBeLessThan(BUNDLE_BYTES);
    expect(bundle.length).toBeGreaterThan(100_000);
  });
});
