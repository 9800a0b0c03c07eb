import { describe, expect, test } from "bun:test";
import { ConfigError, parseConfig, resolveSecrets } from "../../src/config/load.ts";
import type { PrefillRouter } from "../../src/create-router.ts";
import { acquire } from "../../src/workers/lease.ts";
import { makeEngine } from "../simulator/support.ts";
import { ADMIN, call, chat, EngineHouse, names, routerOver } from "./house.ts";

const ENV = { ADMIN, A: "key-of-a", B: "key-of-b", W: "key-of-w" };

function model(id: string, workers: unknown[], more: object = {}) {
  return { id, pools: [{ engine: "openai", workers }], ...more };
}

/** One model "m" on one worker that is there. */
function start(config: Record<string, unknown> = { models: [model("m", ["http://w:1"])] }) {
  const house = new EngineHouse();
  house.engines.set("http://w:1", makeEngine({ engine: "openai", role: "aggregated", model: "m", adapters: ["n"] }));
  return { house, ...routerOver(house, config, { env: ENV }) };
}

function reload(router: PrefillRouter, config: Record<string, unknown>) {
  const whole = { auth: { adminKeyEnv: "ADMIN" }, health: { intervalMs: 0 }, ...config };
  const checked = parseConfig(JSON.stringify(whole));
  return router.control.reload(checked, resolveSecrets(checked, ENV));
}

const ask = (router: PrefillRouter, name: string, key?: string) =>
  call(router, "POST", "/v1/chat/completions", chat(name), key ?? "");

describe("a reload", () => {
  test("brings and takes models, aliases and workers, and leaves counters of those that stay alone", async () => {
    const { router, house } = start();
    house.engines.set("http://n:1", makeEngine({ engine: "openai", role: "aggregated", model: "n" }));
    const lease = acquire(router.services.fleet.worker("worker-1")!, 1, 0);
    expect([(await ask(router, "n")).status, (await ask(router, "gpt-x")).status]).toEqual([404, 404]);
    const report = reload(router, {
      models: [model("m", ["http://w:1"], { aliases: ["gpt-x"] }), model("n", ["http://n:1"])],
    });
    expect(report).toEqual({ changed: ["models"], restart: [] });
    expect([(await ask(router, "n")).status, (await ask(router, "gpt-x")).status]).toEqual([200, 200]);
    expect((await call(router, "GET", "/v1/models")).json.data.map(({ id }: { id: string }) => id)).toEqual([
      "m",
      "gpt-x",
      "n",
    ]);
    expect(router.services.fleet.worker("worker-1")!.load.requests).toBe(1);
    reload(router, { models: [model("n", ["http://n:1"])] });
    expect((await ask(router, "m")).status).toBe(404);
    expect(lease.worker.load.requests).toBe(1);
    lease.release();
    expect(lease.worker.load.requests).toBe(0);
  });

  test("of a model that a scrape should know makes its label, and masks its worker's key", async () => {
    const { router, house } = start();
    house.engines.set("http://n:1", () => Response.json({ error: { message: "bad key key-of-w" } }, { status: 400 }));
    reload(router, { models: [model("n", [{ url: "http://n:1", apiKeyEnv: "W" }])] });
    expect((await ask(router, "n")).json.error.message).toBe("bad key ***");
    expect(router.telemetry.metrics.render()).toContain('prefill_router_responses_total{model="n",status="4xx"} 1');
    await ask(router, "made-up-by-a-client");
    expect(router.telemetry.metrics.render()).not.toContain("made-up");
  });

  test("takes over limits, timeouts, retries and rules that requests are judged by", async () => {
    const { router } = start();
    const models = [model("m", ["http://w:1"])];
    const report = reload(router, {
      models,
      limits: { bodyBytes: 20, concurrency: 1 },
      timeouts: { totalMs: 5 },
      lateFailure: "definitive",
    });
    expect(report.changed.sort()).toEqual(["lateFailure", "limits", "timeouts"]);
    expect((await ask(router, "m")).status).toBe(413);
    reload(router, { models, limits: { concurrency: 1 } });
    expect((await ask(router, "m")).status).toBe(200);
    expect(router.config.timeouts.totalMs).toBe(600_000);
  });

  test("changes keys at once: the old one is refused, the new one known, and open can become closed", async () => {
    const { router } = start();
    const models = [model("m", ["http://w:1"])];
    const keys = (keyEnv: string) => ({ clientKeys: [{ name: "c", keyEnv }], adminKeyEnv: "ADMIN" });
    expect((await ask(router, "m")).status).toBe(200);
    reload(router, { models, auth: keys("A") });
    expect([(await ask(router, "m")).status, (await ask(router, "m", ENV.A)).status]).toEqual([401, 200]);
    reload(router, { models, auth: keys("B") });
    expect([(await ask(router, "m", ENV.A)).status, (await ask(router, "m", ENV.B)).status]).toEqual([401, 200]);
    reload(router, { models, auth: {} });
    expect([(await ask(router, "m")).status, (await call(router, "GET", "/workers")).status]).toEqual([200, 404]);
  });

  test("keeps workers that joined at run time as long as their pool is there", async () => {
    const { router } = start();
    await call(router, "POST", "/workers", { url: "http://x:1", name: "x" });
    reload(router, { models: [model("m", ["http://w:1"])], policy: { decode: "random" } });
    expect(names(router)).toEqual(["worker-1", "x"]);
    reload(router, { models: [model("other", ["http://w:1"])] });
    expect(names(router)).toEqual(["worker-1"]);
  });

  test("brings a configured worker back that somebody took out", async () => {
    const { router } = start();
    await call(router, "DELETE", "/workers/worker-1");
    expect(names(router)).toEqual([]);
    reload(router, { models: [model("m", ["http://w:1"])] });
    expect(names(router)).toEqual(["worker-1"]);
  });

  test("says what needs a restart, and does not pretend: that part stays as it was", async () => {
    const { router, log } = start();
    const report = reload(router, {
      models: [model("m", ["http://w:1"])],
      listen: { port: 9 },
      cors: { origins: ["*"] },
      log: { level: "debug" },
    });
    expect(report).toEqual({ changed: [], restart: ["listen", "cors", "log"] });
    expect([router.config.listen.port, router.config.cors.origins]).toEqual([8000, []]);
    expect(log.at(-1)).toMatchObject({ level: "warn", event: "config_reloaded", needs_restart: "listen, cors, log" });
  });

  test("that cannot be taken over changes nothing", async () => {
    const { router } = start();
    const named = { models: [model("m", ["dns+http://engines.local:1"])], timeouts: { totalMs: 7 } };
    expect(() => reload(router, named)).toThrow(ConfigError);
    const checked = parseConfig(JSON.stringify({ models: [model("m", [{ url: "http://w:1", apiKeyEnv: "W" }])] }));
    expect(() => router.control.reload(checked, { workerKeys: new Map(), clientKeys: [] })).toThrow("was not loaded");
    expect([names(router), router.config.timeouts.totalMs, router.config.models[0]!.pools[0]!.workers[0]!.url]).toEqual(
      [["worker-1"], 600_000, "http://w:1"],
    );
    expect((await ask(router, "m")).status).toBe(200);
  });
});
