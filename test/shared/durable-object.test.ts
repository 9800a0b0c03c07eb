import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Exchanged, SharedStore } from "../../src/shared/store.ts";
import { KEYS } from "../runtimes/config.ts";
import { bundleWorker, ROOT, RouterProcess, workerdConfig } from "../runtimes/process.ts";
import { freePort } from "./redis-server.ts";
import { storePromises } from "./stores.ts";

const NAMESPACE = '(className = "PoolState", uniqueKey = "pool-state", enableSql = true)';

/** `disk`: a folder in which the objects keep what they store; it outlives the process. */
async function start(
  disk: string,
  script?: string,
  more: { config?: object; services?: string; sockets?: string } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), "prefill-router-"));
  const capnp = await workerdConfig(
    folder,
    { ...more.config },
    {
      ...(script !== undefined && { script }),
      bindings: ', (name = "POOL_STATE", durableObjectNamespace = "PoolState")',
      worker: `durableObjectNamespaces = [${NAMESPACE}], durableObjectStorage = (localDisk = "disk"),`,
      services: `, (name = "disk", disk = (path = "${disk}", writable = true))${more.services ?? ""}`,
      ...(more.sockets !== undefined && { sockets: more.sockets }),
    },
  );
  return new RouterProcess(
    join(ROOT, "node_modules/.bin/workerd"),
    ["serve", capnp, "--control-fd=1"],
    folder,
  ).listening();
}

describe("Durable Objects in workerd", () => {
  const disk = mkdtempSync(join(tmpdir(), "prefill-router-objects-"));
  let script: string;
  let process: RouterProcess;
  const url = (topic: string, path = "/") =>
    `http://127.0.0.1:${process.port}${path}?topic=${encodeURIComponent(topic)}`;
  const store: SharedStore = {
    async exchange(topic, write, since) {
      const response = await fetch(url(topic), { method: "POST", body: JSON.stringify({ write, since }) });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as Exchanged;
    },
  };
  const stored = async (topic: string) =>
    (await (await fetch(url(topic))).json()) as { keys: string[]; alarm: number | null };
  const record = (key: string, ttlMs: number) => ({ key, text: `text of ${key}`, ttlMs });

  beforeAll(async () => {
    script = await bundleWorker("test/shared/fixtures/store-worker.ts");
    process = await start(disk, script);
  }, 30_000);

  afterAll(async () => {
    await process?.stop();
    rmSync(disk, { recursive: true, force: true });
  });

  storePromises("a Durable Object", () => store);

  test("an alarm takes away what nobody has renewed, without anybody asking", async () => {
    await store.exchange("alarm", [record("marks:a", 400), record("marks:b", 1_200), record("load:a", 50)], 0);
    // Load reports are not worth a write.
    expect((await stored("alarm")).keys.sort()).toEqual(["record:marks:a", "record:marks:b"]);
    await Bun.sleep(800);
    const after = await stored("alarm");
    expect(after.keys).toEqual(["record:marks:b"]);
    expect(after.alarm).not.toBeNull();
    await Bun.sleep(900);
    expect(await stored("alarm")).toEqual({ keys: [], alarm: null });
  });

  test("marks are there again after the object has been another process; a cursor of before sees what came since", async () => {
    const { cursor } = await store.exchange("again", [record("marks:a", 60_000), record("load:a", 90)], 0);
    await process.stop();
    process = await start(disk, script);
    const all = await store.exchange("again", [], 0);
    expect(all.records.map(({ key, text }) => [key, text])).toEqual([["marks:a", "text of marks:a"]]);
    await store.exchange("again", [record("marks:b", 60_000)], 0);
    const later = await store.exchange("again", [], cursor);
    expect(later.records.map(({ key }) => key)).toContain("marks:b");
  }, 30_000);

  test("what is no exchange is refused, and the object lives on", async () => {
    for (const body of ["", "{", "[]", '{"since":"x","write":[]}', '{"since":0,"write":[{"key":1}]}']) {
      expect((await fetch(url("refused", "/raw"), { method: "POST", body })).status).toBe(400);
    }
    expect((await store.exchange("refused", [record("load:a", 1_000)], 0)).records).toHaveLength(1);
  });
});

describe("routers on Workers", () => {
  test("a drain at one isolate is obeyed by another", async () => {
    const disk = mkdtempSync(join(tmpdir(), "prefill-router-objects-"));
    const pool = {
      engine: "vllm",
      prefill: [{ name: "p1", url: "http://p1.invalid" }],
      decode: [{ name: "d1", url: "http://d1.invalid" }],
    };
    const config = {
      models: [{ id: "m", pools: [pool] }],
      health: { intervalMs: 0 },
      auth: { adminKeyEnv: "ADMIN_KEY" },
    };
    let process: RouterProcess | undefined;
    try {
      // Two workers in one process: two isolates, each with a router of its own, and one namespace of objects.
      const port = await freePort();
      process = await start(disk, undefined, {
        config,
        services: `, (name = "other", worker = (
          modules = [(name = "worker.js", esModule = embed "worker.js")],
          compatibilityDate = "2026-04-01", compatibilityFlags = ["enable_request_signal"],
          bindings = [
            (name = "ROUTER_CONFIG", text = embed "config.txt"), (name = "ADMIN_KEY", text = "${KEYS.ADMIN_KEY}"),
            (name = "POOL_STATE", durableObjectNamespace = (className = "PoolState", serviceName = "router")),
          ],
        ))`,
        sockets: `, (name = "other", address = "127.0.0.1:${port}", http = (), service = "other")`,
      });
      const headers = { authorization: `Bearer ${KEYS.ADMIN_KEY}` };
      const draining = async (at: number) => {
        const response = await fetch(`http://127.0.0.1:${at}/workers/p1`, { headers });
        return ((await response.json()) as { draining: boolean }).draining;
      };
      expect(await draining(port)).toBeFalse();
      const url = `http://127.0.0.1:${process.port}/workers/p1/drain`;
      expect((await fetch(url, { method: "POST", headers })).status).toBe(200);
      const since = performance.now();
      // Requests are what an isolate lives by: its exchanges ride on them.
      while (!(await draining(port)) && performance.now() - since < 10_000) {
        await draining(process.port);
        await Bun.sleep(100);
      }
      expect(performance.now() - since).toBeLessThan(6_000);
    } finally {
      await process?.stop();
      rmSync(disk, { recursive: true, force: true });
    }
  }, 60_000);
});
