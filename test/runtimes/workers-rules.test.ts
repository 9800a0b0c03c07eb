import { afterAll, afterEach, describe, expect, spyOn, test } from "bun:test";
import worker, { createRouter, type PrefillRouter } from "../../src/runtime/workers.ts";
import { DONE, delta, role, whole } from "./answers.ts";
import { EdgePlatform, type Engine } from "./edge-platform.ts";

const CONFIG = {
  models: [
    {
      id: "m",
      pools: [
        {
          engine: "sglang",
          prefill: [{ name: "p", url: "http://p", bootstrapPort: 8998 }],
          decode: [{ name: "d", url: "http://d" }],
        },
      ],
    },
  ],
  health: { intervalMs: 0 },
};

const GOOD = [role(), delta("one"), delta("", "stop"), DONE].join("");

function request(body: Record<string, unknown> = {}): Request {
  const text = JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "hi" }], ...body });
  const headers = { "content-type": "application/json" };
  return new Request("http://router/v1/chat/completions", { method: "POST", headers, body: text });
}

function load(router: PrefillRouter): number {
  return router.services.fleet.workers().reduce((sum, worker) => sum + worker.load.requests, 0);
}

function stream(text: string): Response {
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

function json(text: string, status = 200): Response {
  return new Response(text, { status, headers: { "content-type": "application/json" } });
}

function onEdge(
  engine: Engine,
  config: Record<string, unknown> = CONFIG,
): { edge: EdgePlatform; router: PrefillRouter } {
  const edge = new EdgePlatform(engine);
  return { edge, router: createRouter({ config, clock: edge.clock, transport: edge.transport, sink: quiet }) };
}

function quiet(): void {}

/** Lets what is ready run. */
async function settle(): Promise<void> {
  for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
}

describe("Workers' rules", () => {
  test("the prefill leg is in waitUntil before the handler returns", async () => {
    const { edge, router } = onEdge(async (url) =>
      url.startsWith("http://p") ? new Promise<never>(() => {}) : stream(GOOD),
    );
    const serving = edge.serve(router, request());
    await settle();
    await edge.advance(600);
    const served = await serving;
    expect(served.text).toBe(GOOD);
    // The request itself, and its drain.
    expect(served.tasksAtReturn).toBeGreaterThanOrEqual(2);
  });

  test.each([20_000, 120_000])(
    "a tail that never ends is cut by us, before the platform kills it (tailMs %d)",
    async (tailMs) => {
      const config = { ...CONFIG, timeouts: { tailMs } };
      const { edge, router } = onEdge(
        async (url) => (url.startsWith("http://p") ? new Promise<never>(() => {}) : stream(GOOD)),
        config,
      );
      const serving = edge.serve(router, request());
      await settle();
      await edge.advance(600);
      const served = await serving;
      await settle();
      expect(load(router)).toBe(1);
      await edge.advance(26_000);
      await settle();
      expect([load(router), served.tasks()]).toEqual([0, 0]);
      await edge.advance(10_000);
      expect(edge.violations).toEqual([]);
    },
  );

  test("a request for as many answers as may be asked for never has more than six connections waiting", async () => {
    const pending: (() => void)[] = [];
    const { edge, router } = onEdge(async (url) => {
      await new Promise<void>((resolve) => pending.push(resolve));
      return json(whole("x", url.startsWith("http://p") ? "length" : "stop"));
    });
    const serving = edge.serve(router, request({ n: 3, stream: false }));
    for (let round = 0; round < 10; round++) {
      await settle();
      for (const go of pending.splice(0)) go();
    }
    const served = await serving;
    expect(JSON.parse(served.text).choices).toHaveLength(3);
    expect(edge.mostWaiting).toBe(6);
    expect(edge.violations).toEqual([]);
  });

  test("a hundred requests side by side, failing, left and queued: none touches another's connections or timers (B73)", async () => {
    let count = 0;
    const config = {
      ...CONFIG,
      limits: { concurrency: 20, queue: 200 },
      auth: { clientKeys: [{ name: "k", keyEnv: "KEY" }] },
      health: { intervalMs: 500, path: "/health" },
      breaker: { enabled: false },
    };
    const edge = new EdgePlatform(async (url, { method }) => {
      await new Promise((resolve) => setTimeout(resolve, (++count * 7) % 23));
      if (method === "GET") return json("{}");
      if (count % 9 === 0) throw new Error("Network connection lost.");
      if (count % 11 === 0) return json('{"error":{"message":"busy"}}', 500);
      return url.startsWith("http://p") ? json(whole("A", "length")) : stream(GOOD);
    });
    const env = { KEY: "secret-key" };
    const router = createRouter({ config, env, clock: edge.clock, transport: edge.transport, sink: quiet });
    let over = false;
    const served = Promise.all(
      Array.from({ length: 100 }, (_, i) => {
        const asked = request();
        asked.headers.set("authorization", "Bearer secret-key");
        return edge.serve(router, asked, i % 5 === 0 ? 1 : undefined);
      }),
    ).finally(() => {
      over = true;
    });
    while (!over) {
      await edge.advance(20);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const statuses = new Set((await served).map(({ status }) => status));
    expect(statuses.has(200)).toBe(true);
    expect([...statuses].every((status) => [200, 500, 502].includes(status))).toBe(true);
    await edge.advance(31_000);
    await settle();
    expect(edge.violations).toEqual([]);
    expect(load(router)).toBe(0);
    expect(router.active()).toBe(0);
  });

  test("probes ride on requests, two at a time, after the legs, and reach every worker in the end", async () => {
    const names = Array.from({ length: 9 }, (_, i) => ({ name: `d${i}`, url: `http://d${i}` }));
    const pool = { engine: "vllm", prefill: [{ name: "p", url: "http://p", bootstrapPort: 8998 }], decode: names };
    const config = { models: [{ id: "m", pools: [pool] }], health: { intervalMs: 60_000, path: "/health" } };
    const eager = { ...config, health: { intervalMs: 100, path: "/health" } };
    const handoff = {
      do_remote_prefill: true,
      remote_block_ids: [[1]],
      remote_engine_id: "e",
      remote_request_id: "r",
      remote_host: "h",
      remote_port: 1,
    };
    const probed = new Set<string>();
    let legs = 0;
    const early: string[] = [];
    const engine: Engine = async (url, { method }) => {
      if (method === "GET") {
        if (legs === 0) early.push(url);
        probed.add(url);
        return json("{}");
      }
      legs += 1;
      return url.startsWith("http://p/") ? json(whole("A", "length", { kv_transfer_params: handoff })) : stream(GOOD);
    };
    const { edge, router } = onEdge(engine, config);
    const counts: number[] = [];
    for (let round = 0; round < 6; round++) {
      legs = 0;
      const before = probed.size;
      expect((await edge.serve(router, request())).text).toBe(GOOD);
      await edge.advance(150);
      counts.push(probed.size - before);
    }
    expect([counts, early, edge.violations]).toEqual([[2, 2, 2, 2, 2, 0], [], []]);
    // The first are due again before the last were asked, and have to wait for them.
    probed.clear();
    const hasty = onEdge(engine, eager);
    for (let round = 0; round < 5; round++) {
      await hasty.edge.serve(hasty.router, request());
      await hasty.edge.advance(150);
    }
    expect(probed.size).toBe(10);
  });

  test("making a router starts nothing: no timer, no randomness, no hash, no request", () => {
    const spies = [
      spyOn(globalThis, "setTimeout"),
      spyOn(globalThis, "setInterval"),
      spyOn(globalThis, "fetch"),
      spyOn(crypto, "getRandomValues"),
      spyOn(crypto, "randomUUID"),
      spyOn(crypto.subtle, "digest"),
      spyOn(Math, "random"),
    ];
    try {
      const auth = { clientKeys: [{ name: "k", keyEnv: "KEY" }], adminKeyEnv: "ADMIN" };
      const telemetry = { otlpUrl: "http://collector" };
      createRouter({ config: { ...CONFIG, auth, telemetry }, env: { KEY: "a-key", ADMIN: "another" } });
      for (const spy of spies) expect(spy).not.toHaveBeenCalled();
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  });

  test("spans leave with the request they tell of", async () => {
    const sent: string[] = [];
    const fetching = spyOn(globalThis, "fetch").mockImplementation((async (url: string) => {
      sent.push(url);
      return new Response("{}");
    }) as unknown as typeof fetch);
    try {
      const config = { ...CONFIG, telemetry: { otlpUrl: "http://collector" } };
      const engine: Engine = async (url) => (url.startsWith("http://p") ? json(whole("A", "length")) : stream(GOOD));
      const { edge, router } = onEdge(engine, config);
      await edge.serve(router, request());
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(sent).toEqual(["http://collector/v1/traces"]);
      expect(edge.violations).toEqual([]);
    } finally {
      fetching.mockRestore();
    }
  });
});

describe("the ready-made Worker", () => {
  const errors = spyOn(console, "error");
  const lines = spyOn(console, "log").mockImplementation(quiet);
  afterEach(() => errors.mockReset());
  afterAll(() => {
    errors.mockRestore();
    lines.mockRestore();
  });
  const context = { waitUntil: () => {} };

  test("a bad configuration answers 500 to everything and names the field in the log, never a value", async () => {
    errors.mockImplementation(() => {});
    for (const path of ["/health", "/v1/chat/completions"]) {
      const env = { ROUTER_CONFIG: '{"models":[],"listen":{"port":"hush"}}' };
      const response = await worker.fetch(new Request(`http://router${path}`), env, context);
      expect(response.status).toBe(500);
      const { error } = (await response.json()) as { error: { code: string; message: string } };
      expect([error.code, error.message]).toEqual([
        "internal",
        "The router's configuration is wrong; its log says where",
      ]);
    }
    expect(errors).toHaveBeenCalledTimes(2);
    expect(String(errors.mock.calls[0]?.[0])).toContain("models");
  });

  test("without a configuration the variable is named", async () => {
    errors.mockImplementation(() => {});
    expect((await worker.fetch(new Request("http://router/health"), {}, context)).status).toBe(500);
    expect(String(errors.mock.calls[0]?.[0])).toContain("ROUTER_CONFIG");
  });

  test("the configuration comes in parts", async () => {
    const text = JSON.stringify(CONFIG);
    const env = { ROUTER_CONFIG_1: text.slice(0, 40), ROUTER_CONFIG_2: text.slice(40) };
    expect((await worker.fetch(new Request("http://router/health"), env, context)).status).toBe(200);
  });

  test("a secret that is missing is named, a binding for nobody too", async () => {
    errors.mockImplementation(() => {});
    const auth = { clientKeys: [{ name: "k", keyEnv: "MISSING_KEY" }] };
    const noKey = { ROUTER_CONFIG: JSON.stringify({ ...CONFIG, auth }) };
    expect((await worker.fetch(new Request("http://router/health"), noKey, context)).status).toBe(500);
    expect(String(errors.mock.calls[0]?.[0])).toContain("MISSING_KEY");
    const noWorker = { ROUTER_CONFIG: JSON.stringify(CONFIG), ROUTER_BINDINGS: '{"nobody":"X"}' };
    expect((await worker.fetch(new Request("http://router/health"), noWorker, context)).status).toBe(500);
    expect(String(errors.mock.calls[1]?.[0])).toContain("nobody");
  });

  test("named workers are reached through their bindings, the others by the network", async () => {
    const asked: string[] = [];
    const binding = (name: string, text: string) => ({
      async fetch(url: string) {
        asked.push(`${name} ${url}`);
        return name === "D1" ? stream(text) : json(text);
      },
    });
    const env = {
      ROUTER_CONFIG: JSON.stringify(CONFIG),
      ROUTER_BINDINGS: '{"p":"P1","d":"D1"}',
      P1: binding("P1", whole("A", "length")),
      D1: binding("D1", GOOD),
    };
    const response = await worker.fetch(request(), env, context);
    expect(await response.text()).toBe(GOOD);
    expect(asked.sort()).toEqual(["D1 http://d/v1/chat/completions", "P1 http://p/v1/chat/completions"]);
  });

  test("buffered answers have a native body with a length", async () => {
    const env = {
      ROUTER_CONFIG: JSON.stringify(CONFIG),
      ROUTER_BINDINGS: '{"p":"P1","d":"D1"}',
      P1: { fetch: async () => json(whole("A", "length")) },
      D1: { fetch: async () => json(whole("x", "stop")) },
    };
    const response = await worker.fetch(request({ stream: false }), env, context);
    expect(await response.text()).toBe(whole("x", "stop"));
  });
});
