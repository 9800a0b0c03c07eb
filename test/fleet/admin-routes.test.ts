import { describe, expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import { acquire } from "../../src/workers/lease.ts";
import { makeEngine } from "../simulator/support.ts";
import { call, chat, EngineHouse, type Json, names, routerOver } from "./house.ts";

const sglang = {
  models: [
    {
      id: "m",
      aliases: ["gpt-x"],
      pools: [{ engine: "sglang", prefill: [{ url: "http://p:1", name: "p1" }], decode: ["http://d:1"] }],
    },
  ],
};
const twoModels = {
  models: [
    { id: "a", pools: [{ engine: "vllm", prefill: ["http://pa:1"], decode: ["http://da:1"] }] },
    {
      id: "b",
      pools: [
        { name: "one", engine: "vllm", workers: ["http://b1:1"] },
        { name: "two", engine: "trtllm", workers: ["http://b2:1"] },
      ],
    },
  ],
};

function start(config: Record<string, unknown> = sglang, options: object = {}) {
  const house = new EngineHouse();
  return { house, ...routerOver(house, config, options) };
}

describe("who may", () => {
  const every = [
    ["GET", "/workers"],
    ["POST", "/workers"],
    ["PUT", "/workers"],
    ["GET", "/workers/p1"],
    ["GET", "/workers/nobody"],
    ["DELETE", "/workers/p1"],
    ["POST", "/workers/p1/drain"],
    ["GET", "/workers/p1/drain"],
  ] as const;

  test.each(every)("%s %s is 401 without a key, 403 with a client's, and nothing happens", async (method, path) => {
    const { router } = start(
      { ...sglang, auth: { clientKeys: [{ name: "c", keyEnv: "CLIENT" }], adminKeyEnv: "ADMIN" } },
      { env: { CLIENT: "client-key", ADMIN: "admin-key" } },
    );
    for (const [key, status, code] of [
      ["", 401, "unauthorized"],
      ["client-key", 403, "forbidden"],
      ["admin-key-and-more", 403, "forbidden"],
    ] as const) {
      const reply = await call(router, method, path, method === "POST" ? { url: "http://x:1" } : undefined, key);
      expect([reply.status, reply.json.error.code, reply.headers.get("x-router-error-code")]).toEqual([
        status,
        code,
        code,
      ]);
      expect(JSON.stringify(reply.json)).not.toContain("admin-key");
    }
    expect(names(router)).toEqual(["p1", "decode-1"]);
    expect(router.services.fleet.worker("p1")!.draining).toBe(false);
  });

  test.each(every)("%s %s is a 404 like any unknown route where no admin key is configured", async (method, path) => {
    const { router } = start({ ...sglang, auth: {} });
    const reply = await call(router, method, path, undefined, "admin-key");
    expect([reply.status, reply.json.error.code, reply.json.error.stage]).toEqual([404, "not_found", "router"]);
  });

  test("a client's route does not take the admin key", async () => {
    const { router } = start(
      { ...sglang, auth: { clientKeys: [{ name: "c", keyEnv: "CLIENT" }], adminKeyEnv: "ADMIN" } },
      { env: { CLIENT: "client-key", ADMIN: "admin-key" } },
    );
    expect((await call(router, "POST", "/v1/chat/completions", chat())).status).toBe(401);
  });

  test("other methods are 405 and named, other paths 404", async () => {
    const { router } = start();
    for (const [method, path, allow] of [
      ["DELETE", "/workers", "GET, POST"],
      ["POST", "/workers/p1", "GET, DELETE"],
      ["DELETE", "/workers/p1/drain", "POST"],
    ] as const) {
      const reply = await call(router, method, path, method === "POST" ? {} : undefined);
      expect([reply.status, reply.json.error.code, reply.headers.get("allow")]).toEqual([
        405,
        "method_not_allowed",
        allow,
      ]);
    }
    expect((await call(router, "GET", "/workers/p1/load")).status).toBe(404);
  });
});

describe("GET", () => {
  test("/workers lists all with the names the SGLang gateway has for the same things", async () => {
    const { router } = start({ ...sglang, auth: { adminKeyEnv: "ADMIN" } });
    const lease = acquire(router.services.fleet.worker("p1")!, 10, 0);
    const { status, json } = await call(router, "GET", "/workers");
    expect(status).toBe(200);
    expect(json.workers[0]).toEqual({
      id: "p1",
      name: "p1",
      url: "http://p:1",
      model_id: "m",
      worker_type: "prefill",
      is_healthy: true,
      load: 1,
      connection_mode: "http",
      runtime_type: "sglang",
      bootstrap_port: 8998,
      dp_size: 1,
      pool: "default",
      weight: 1,
      origin: "config",
      usable: true,
      draining: false,
      breaker: "closed",
      queued_tokens: 10,
      avoided_for_ms: 0,
      probed_ago_ms: null,
      problems: [],
    });
    expect(json.workers[1]).not.toHaveProperty("bootstrap_port");
    expect([json.total, json.stats]).toEqual([
      2,
      {
        total_workers: 2,
        healthy_workers: 2,
        total_models: 1,
        total_load: 1,
        by_type: { regular: 0, prefill: 1, decode: 1 },
      },
    ]);
    lease.release();
  });

  test("/workers/{name} is one of them, 404 for nobody", async () => {
    const { router } = start();
    expect((await call(router, "GET", "/workers/p1")).json).toMatchObject({ id: "p1", worker_type: "prefill" });
    const nobody = await call(router, "GET", "/workers/nobody");
    expect([nobody.status, nobody.json.error.code, nobody.json.error.message]).toEqual([
      404,
      "not_found",
      'There is no worker "nobody"',
    ]);
  });
});

describe("POST /workers", () => {
  test("lets a worker in, and requests reach it", async () => {
    const { router, house, log } = start();
    const fabric = createFabric();
    house.engines.set(
      "http://p2:1",
      makeEngine({ engine: "sglang", role: "prefill", model: "m", fabric, sidePort: 9001 }),
    );
    house.engines.set("http://d2:1", makeEngine({ engine: "sglang", role: "decode", model: "m", fabric }));
    const prefill = await call(router, "POST", "/workers", {
      url: "http://P2:1/",
      worker_type: "prefill",
      bootstrap_port: 9001,
      model_id: "gpt-x",
      api_key: "p2-secret",
      priority: 50,
      labels: {},
      tokenizer_path: null,
    });
    expect([prefill.status, prefill.headers.get("location")]).toEqual([201, "/workers/prefill-1"]);
    expect(prefill.json).toMatchObject({
      success: true,
      ignored: ["priority", "labels"],
      worker: {
        id: "prefill-1",
        url: "http://p2:1",
        model_id: "m",
        worker_type: "prefill",
        origin: "api",
        bootstrap_port: 9001,
      },
    });
    expect((await call(router, "POST", "/workers", { url: "http://d2:1", worker_type: "decode" })).status).toBe(201);
    for (const name of ["p1", "decode-1"]) await call(router, "DELETE", `/workers/${name}`);
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect([answer.status, answer.headers.get("x-router-prefill")]).toEqual([200, "prefill-1"]);
    const leg = house.seen.find(({ url, path }) => url === "http://p2:1" && path === "/v1/chat/completions")!;
    expect(leg.authorization).toBe("Bearer p2-secret");
    expect(JSON.stringify((await call(router, "GET", "/workers")).json) + JSON.stringify(log)).not.toContain(
      "p2-secret",
    );
  });

  test("masks the worker's key where the engine's own error would show it", async () => {
    const { router, house } = start({ models: [{ id: "m", pools: [{ engine: "openai", workers: ["http://w:1"] }] }] });
    house.engines.set("http://new:1", (request) =>
      Response.json({ error: { message: `no such key: ${request.headers.get("authorization")}` } }, { status: 400 }),
    );
    await call(router, "DELETE", "/workers/worker-1");
    await call(router, "POST", "/workers", { url: "http://new:1", api_key: "sk-new-worker" });
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect([answer.status, answer.json.error.message]).toEqual([400, "no such key: Bearer ***"]);
  });

  test("asks the engine for what is left open: its role, and its model where there are several", async () => {
    const two = start({
      models: ["a", "b"].map((id) => ({ id, pools: [{ engine: "sglang", workers: [`http://${id}:1`] }] })),
    });
    two.house.engines.set("http://n:1", makeEngine({ engine: "sglang", role: "decode", model: "b" }));
    const reply = await call(two.router, "POST", "/workers", { url: "http://n:1" });
    expect([reply.status, reply.json.worker.model_id, reply.json.worker.worker_type]).toEqual([201, "b", "decode"]);

    const vllm = start(twoModels);
    vllm.house.engines.set("http://n:1", makeEngine({ engine: "vllm", role: "aggregated", model: "a" }));
    const regular = await call(vllm.router, "POST", "/workers", { url: "http://n:1" });
    expect([regular.status, regular.json.worker.model_id, regular.json.worker.worker_type]).toEqual([
      201,
      "a",
      "regular",
    ]);
  });

  test.each([
    ["the same address, spelt otherwise", { url: "HTTP://p:1/", worker_type: "decode" }],
    ["a name that is taken", { url: "http://p2:1", name: "p1", worker_type: "prefill" }],
  ])("%s is 409", async (_what, body) => {
    const { router } = start();
    const reply = await call(router, "POST", "/workers", body);
    expect([reply.status, reply.json.error.code, reply.json.error.type]).toEqual([
      409,
      "conflict",
      "invalid_request_error",
    ]);
    expect(names(router)).toEqual(["p1", "decode-1"]);
  });

  const bad: [string, Json, number, string, string | null][] = [
    ["no JSON", "{", 400, "invalid_request", null],
    ["a list", [], 400, "invalid_request", null],
    ["no url", { worker_type: "decode" }, 400, "invalid_request", "url"],
    ["a url with a password", { url: "http://u:pw@h:1", worker_type: "decode" }, 400, "invalid_request", "url"],
    ["a name to look up", { url: "dns+http://h:1", worker_type: "decode" }, 400, "invalid_request", "url"],
    ["another type", { url: "http://h:1", worker_type: "both" }, 400, "invalid_request", "worker_type"],
    [
      "a port as text",
      { url: "http://h:1", worker_type: "prefill", bootstrap_port: "1" },
      400,
      "invalid_request",
      "bootstrap_port",
    ],
    ["an unknown member", { url: "http://h:1", worker_typ: "decode" }, 400, "invalid_request", "worker_typ"],
    ["the prototype's members", '{"url":"http://h:1","constructor":1}', 400, "invalid_request", "constructor"],
    [
      "a key with a line feed",
      { url: "http://h:1", worker_type: "decode", api_key: "a\nb" },
      400,
      "invalid_request",
      "api_key",
    ],
    [
      "an unknown model",
      { url: "http://h:1", worker_type: "decode", model_id: "x" },
      404,
      "model_not_found",
      "model_id",
    ],
    ["an unknown pool", { url: "http://h:1", worker_type: "decode", pool: "x" }, 400, "invalid_request", "pool"],
    [
      "another engine",
      { url: "http://h:1", worker_type: "decode", runtime: "vllm" },
      400,
      "invalid_request",
      "runtime",
    ],
    ["no type, and nobody who tells it", { url: "http://h:1" }, 400, "invalid_request", "worker_type"],
  ];
  test.each(bad)("%s is refused and names the member", async (_what, body, status, code, param) => {
    const { router } = start();
    const reply = await call(router, "POST", "/workers", body);
    expect([reply.status, reply.json.error.code, reply.json.error.param]).toEqual([status, code, param]);
    expect(reply.json.error.message).not.toContain("pw");
    expect(names(router)).toEqual(["p1", "decode-1"]);
  });

  test("a pool is needed where the model has several, unless the engine tells them apart", async () => {
    const { router } = start(twoModels);
    const open = await call(router, "POST", "/workers", { url: "http://h:1", model_id: "b" });
    expect([open.status, open.json.error.param, open.json.error.message]).toEqual([
      400,
      "pool",
      "pool: is needed, one of one, two",
    ]);
    const told = await call(router, "POST", "/workers", { url: "http://h:1", model_id: "b", runtime: "trtllm" });
    expect([told.status, told.json.worker.pool]).toEqual([201, "two"]);
  });

  test("a pushing prefill worker needs what decode is told ahead", async () => {
    const { router } = start({
      models: [
        {
          id: "m",
          pools: [
            {
              engine: "vllm",
              connector: "nixl-push",
              prefill: [{ url: "http://p:1", engineId: "e1", kvHost: "p" }],
              decode: ["http://d:1"],
            },
          ],
        },
      ],
    });
    const post = (more: object) =>
      call(router, "POST", "/workers", { url: "http://h:1", worker_type: "prefill", ...more });
    expect((await post({ kv_host: "h" })).json.error.param).toBe("engine_id");
    expect((await post({ engine_id: "e2" })).json.error.param).toBe("kv_host");
    expect((await post({ engine_id: "e1", kv_host: "h" })).json.error.param).toBe("engine_id");
    expect((await post({ engine_id: "e2", kv_host: "h" })).status).toBe(201);
    expect(router.services.fleet.worker("prefill-2")!.target).toMatchObject({
      engineId: "e2",
      kvHost: "h",
      kvPort: 5600,
    });
  });
});

describe("taking workers out", () => {
  test("drain tells what is in flight, gives nothing new, and is done when that is over", async () => {
    const { router } = start();
    const worker = router.services.fleet.worker("p1")!;
    const lease = acquire(worker, 1, 0);
    const drain = () => call(router, "POST", "/workers/p1/drain");
    expect((await drain()).json).toMatchObject({
      draining: true,
      drained: false,
      in_flight: 1,
      worker: { load: 1, usable: false },
    });
    const refused = await call(router, "POST", "/v1/chat/completions", chat());
    expect([refused.status, refused.json.error.code]).toEqual([503, "no_prefill_workers"]);
    lease.release();
    expect((await drain()).json).toMatchObject({ draining: true, drained: true, in_flight: 0 });
    expect((await call(router, "POST", "/workers/nobody/drain")).status).toBe(404);
  });

  test("DELETE takes out at once, tells what runs on, and lets the same address join again as another worker", async () => {
    const { router } = start();
    const worker = router.services.fleet.worker("p1")!;
    const lease = acquire(worker, 1, 0);
    const gone = await call(router, "DELETE", "/workers/p1");
    expect([gone.status, gone.json.worker.load, gone.json.message]).toEqual([
      200,
      1,
      'Worker "p1" left; in hand and running on: 1',
    ]);
    expect((await call(router, "DELETE", "/workers/p1")).status).toBe(404);
    await call(router, "POST", "/workers", { url: "http://p:1", name: "p1", worker_type: "prefill" });
    lease.release();
    expect([worker.load.requests, router.services.fleet.worker("p1")!.load.requests]).toEqual([0, 0]);
    expect(router.services.fleet.worker("p1")).not.toBe(worker);
  });
});
