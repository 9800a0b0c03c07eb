import { afterEach, describe, expect, test } from "bun:test";
import { type BunServer, createBunRouter, serveBun } from "../../src/runtime/bun.ts";

const servers: BunServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(0);
});

function serve(port: number, reusePort: boolean): number {
  const config = {
    listen: { port },
    health: { intervalMs: 0 },
    models: [{ id: "m", pools: [{ engine: "openai", workers: ["http://127.0.0.1:1"] }] }],
  };
  const server = serveBun(createBunRouter({ config }), { reusePort });
  servers.push(server);
  return server.port;
}

describe("a port", () => {
  test("is shared by those that all ask for it, and both answer", async () => {
    const port = serve(0, true);
    expect(serve(port, true)).toBe(port);
    for (const server of servers.splice(0)) {
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
      await server.stop(0);
    }
  });

  test("is not shared otherwise: a second router by mistake does not start", () => {
    const port = serve(0, false);
    expect(() => serve(port, false)).toThrow();
  });
});
