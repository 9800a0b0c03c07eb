import { afterAll, beforeAll, expect, test } from "bun:test";
import { KEYS } from "../runtimes/config.ts";
import { type RouterProcess, startRouter } from "../runtimes/process.ts";
import { RedisServer, SERVER } from "./redis-server.ts";

const RUNTIMES = ["bun", "deno", "node"] as const;

// That a server is missing is said in stores.test.ts.
if (SERVER !== undefined) {
  let server: RedisServer;
  const routers: RouterProcess[] = [];

  beforeAll(async () => {
    server = await RedisServer.start(KEYS.TEAM_KEY);
    const config = {
      listen: { host: "127.0.0.1", port: 0 },
      models: [
        {
          id: "m",
          pools: [
            {
              engine: "vllm",
              prefill: [{ name: "p1", url: "http://127.0.0.1:9" }],
              decode: [{ name: "d1", url: "http://127.0.0.1:10" }],
            },
          ],
        },
      ],
      health: { intervalMs: 0 },
      auth: { adminKeyEnv: "ADMIN_KEY" },
      store: { url: server.url, passwordEnv: "TEAM_KEY" },
    };
    for (const runtime of RUNTIMES) routers.push(await startRouter(runtime, config));
  }, 60_000);

  afterAll(async () => {
    for (const router of routers) await router.stop();
    await server?.stop();
  });

  const ask = async (router: RouterProcess, path: string, method = "GET") => {
    const headers = { authorization: `Bearer ${KEYS.ADMIN_KEY}` };
    const response = await fetch(`http://127.0.0.1:${router.port}${path}`, { method, headers });
    return (await response.json()) as { draining: boolean };
  };

  async function secondsUntilAll(draining: string): Promise<number> {
    const since = performance.now();
    for (;;) {
      const seconds = (performance.now() - since) / 1_000;
      const told = await Promise.all(routers.map((router) => ask(router, `/workers/${draining}`)));
      if (told.every(({ draining: is }) => is) || seconds > 15) return seconds;
      await Bun.sleep(50);
    }
  }

  test("routers on Bun, Deno and Node share one Redis: a drain at one is obeyed by all", async () => {
    await ask(routers[0]!, "/workers/p1/drain", "POST");
    expect(await secondsUntilAll("p1")).toBeLessThan(5);
  }, 30_000);

  test("and so it is after the server was gone: what was said meanwhile is heard within five seconds", async () => {
    await server.down();
    await Bun.sleep(1_500);
    await ask(routers[2]!, "/workers/d1/drain", "POST");
    expect((await ask(routers[0]!, "/workers/d1")).draining).toBeFalse();
    await server.up();
    expect(await secondsUntilAll("d1")).toBeLessThan(6);
    // Log lines are written together, ten times a second.
    await Bun.sleep(500);
    for (const { stdout, stderr } of routers) {
      expect(stderr).toBe("");
      expect(stdout).toMatch(/"event":"store","reached":false/);
      expect(stdout).toMatch(/"event":"store","reached":true/);
      expect(stdout).not.toContain(KEYS.TEAM_KEY);
    }
  }, 30_000);
}
