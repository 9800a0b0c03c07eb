import { describe, expect, test } from "bun:test";
import { readMooncakeRanks } from "../../src/fleet/mooncake-query.ts";
import { readServerInfo } from "../../src/fleet/server-info.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import { respond } from "../../src/simulator/play-response.ts";
import { acquire } from "../../src/workers/lease.ts";
import { ManualClock, makeEngine, settle } from "../simulator/support.ts";
import { call, chat, EngineHouse, routerOver, tend } from "./house.ts";

const P = "http://p:1";
const D = "http://d:1";

function sglang(prefill: object = {}, decode: object = {}) {
  return {
    models: [
      { id: "m", pools: [{ engine: "sglang", prefill: [{ url: P, ...prefill }], decode: [{ url: D, ...decode }] }] },
    ],
  };
}

const PATH = "/v1/chat/completions";

/** Where prefill was told to meet decode, request by request. */
function ports(house: EngineHouse): number[] {
  const legs = house.seen.filter(({ url, path }) => url === P && path === PATH);
  return legs.map(({ body }) => JSON.parse(body).bootstrap_port);
}

function sglangHouse(prefill: object = {}): EngineHouse {
  const house = new EngineHouse();
  const fabric = createFabric();
  const common = { engine: "sglang", model: "m", fabric } as const;
  house.engines.set(P, makeEngine({ ...common, role: "prefill", sidePort: 9111, dpSize: 2, ...prefill }));
  house.engines.set(D, makeEngine({ ...common, role: "decode" }));
  return house;
}

describe("what SGLang tells of itself", () => {
  test("fills in the bootstrap port and the ranks that the configuration leaves open", async () => {
    const house = sglangHouse();
    const { router } = routerOver(house, sglang({ bootstrapHost: "10.0.0.1" }));
    const [worker] = router.services.fleet.model("m")!.pools[0]!.prefill;
    expect(worker!.target).toMatchObject({ bootstrapPort: 8998, dpSize: 1 });
    await tend(router);
    expect(worker!.target).toMatchObject({ bootstrapHost: "10.0.0.1", bootstrapPort: 9111, dpSize: 2 });
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect(answer.status).toBe(200);
    const leg = house.seen.find((seen) => seen.url === P && seen.path === "/v1/chat/completions")!;
    expect(JSON.parse(leg.body).bootstrap_port).toBe(9111);
  });

  test("is asked by the first requests after a cold start: no room is opened at a guessed port", async () => {
    const house = sglangHouse();
    const { router } = routerOver(house, sglang());
    const answers = await Promise.all(["a", "b", "c"].map((text) => call(router, "POST", PATH, chat("m", text))));
    expect((await call(router, "POST", PATH, chat())).status).toBe(200);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(ports(house)).toEqual([9111, 9111, 9111, 9111]);
    expect(house.paths(P).filter((path) => path !== PATH)).toEqual(["/server_info"]);
  });

  test("is not waited for where the configuration names the port", async () => {
    const house = sglangHouse();
    const { router } = routerOver(house, sglang({ bootstrapPort: 9111 }));
    router.tendsWithRequests = false;
    expect((await call(router, "POST", PATH, chat())).status).toBe(200);
    expect(house.paths(P)).toEqual([PATH]);
  });

  test.each([
    ["has no such route", () => new Response("Not Found", { status: 404 })],
    ["is still starting", () => new Response("", { status: 503 })],
    [
      "says nothing of a port",
      () => Response.json({ disaggregation_mode: "prefill", dp_size: 1, served_model_name: "m" }),
    ],
  ])("an engine that %s: the default port, and only the first request has asked", async (_what, answer) => {
    const house = sglangHouse({ sidePort: 8998 });
    const engine = house.engines.get(P)!;
    const play = typeof engine === "function" ? engine : respond(engine);
    house.engines.set(P, (request) => (request.method === "GET" ? answer() : play(request)));
    const { router } = routerOver(house, sglang());
    router.tendsWithRequests = false;
    for (let round = 0; round < 3; round++) void call(router, "POST", PATH, chat("m", `${round}`));
    await settle();
    const asked = house.paths(P).filter((path) => path !== PATH).length;
    void call(router, "POST", PATH, chat());
    await settle();
    expect(ports(house)).toEqual([8998, 8998, 8998, 8998]);
    expect(house.paths(P).filter((path) => path !== PATH)).toHaveLength(asked);
  });

  test("an engine that does not answer the question holds requests for a second, those of the first second only", async () => {
    const house = sglangHouse({ sidePort: 8998 });
    const engine = house.engines.get(P)!;
    const play = typeof engine === "function" ? engine : respond(engine);
    house.engines.set(P, (request) => (request.method === "GET" ? new Promise(() => {}) : play(request)));
    const clock = new ManualClock();
    const { router } = routerOver(house, sglang(), { clock });
    router.tendsWithRequests = false;
    void call(router, "POST", PATH, chat("m", "first"));
    await clock.advance(600);
    void call(router, "POST", PATH, chat("m", "second"));
    await settle();
    expect(ports(house)).toEqual([]);
    await clock.advance(400);
    await settle();
    expect(ports(house)).toEqual([8998]);
    // The question is still under way, and nobody waits for it any more.
    void call(router, "POST", PATH, chat("m", "third"));
    await settle();
    expect(ports(house)).toEqual([8998, 8998]);
    await clock.advance(600);
    await settle();
    expect(ports(house)).toEqual([8998, 8998, 8998]);
    expect(house.paths(P).filter((path) => path !== PATH)).toEqual(["/server_info"]);
  });

  test("never overrules the configuration: differences are reported, once, and shown", async () => {
    const house = sglangHouse({ role: "decode", model: "other" });
    const { router, log } = routerOver(house, sglang({ bootstrapPort: 8998, dpSize: 1 }));
    await tend(router);
    await tend(router);
    const [worker] = router.services.fleet.model("m")!.pools[0]!.prefill;
    expect(worker!.target).toMatchObject({ bootstrapPort: 8998, dpSize: 1 });
    const problems = [
      "the role is configured as prefill, the engine says decode",
      "the model is configured as m, the engine says other",
      "the bootstrap port is configured as 8998, the engine says 9111",
      "the data-parallel size is configured as 1, the engine says 2",
    ];
    expect(router.control.one("prefill-1").problems).toEqual(problems);
    expect(router.control.one("decode-1").problems).toEqual([]);
    expect(log.filter(({ event }) => event === "worker_differs")).toEqual([
      expect.objectContaining({ level: "warn", worker: "prefill-1", problems: problems.join("; ") }),
    ]);
  });

  test("a difference is looked at again, each minute or two: an engine may be put right without a probe that fails", async () => {
    const house = sglangHouse({ role: "decode" });
    const clock = new ManualClock();
    const { router, log } = routerOver(house, sglang(), { clock });
    await tend(router);
    expect(router.control.one("prefill-1").problems.length).toBe(1);
    house.engines.set(P, sglangHouse().engines.get(P)!);
    await clock.advance(59_000);
    await tend(router);
    expect(router.control.one("prefill-1").problems.length).toBe(1);
    await clock.advance(61_000);
    await tend(router);
    expect(router.control.one("prefill-1").problems).toEqual([]);
    expect(log.filter(({ event }) => event === "worker_differs").map(({ level }) => level)).toEqual(["warn", "info"]);
    const asked = house.seen.length;
    await clock.advance(600_000);
    await tend(router);
    expect(house.seen.length).toBe(asked);
  });

  test("is asked once, at the older path where the newer is unknown, and again after the worker was down", async () => {
    const house = new EngineHouse();
    const told = { disaggregation_mode: "null", disaggregation_bootstrap_port: 1, dp_size: 1, served_model_name: "m" };
    house.engines.set(P, ({ url }) =>
      url.endsWith("/get_server_info") ? Response.json(told) : Response.json({ detail: "Not Found" }, { status: 404 }),
    );
    const { router } = routerOver(house, { models: [{ id: "m", pools: [{ engine: "sglang", workers: [P] }] }] });
    for (let i = 0; i < 3; i++) await tend(router);
    expect(house.paths(P)).toEqual(["/server_info", "/get_server_info"]);
    expect(router.control.one("worker-1").problems).toEqual([]);
    const worker = router.services.fleet.worker("worker-1")!;
    router.control.healthChanged(worker, false);
    await tend(router);
    expect(house.paths(P).length).toBe(2);
    router.control.healthChanged(worker, true);
    await tend(router);
    expect(house.paths(P).length).toBe(4);
  });

  test("an engine that is not there yet is asked again, more and more seldom, and no request waits for it", async () => {
    const house = new EngineHouse();
    const clock = new ManualClock();
    const { router } = routerOver(house, sglang(), { clock });
    const asked = () => house.paths(P).filter((path) => path === "/server_info").length;
    await tend(router);
    await tend(router);
    expect(asked()).toBe(1);
    const at: number[] = [];
    for (let second = 1; second <= 8; second++) {
      await clock.advance(1000);
      const before = asked();
      await tend(router);
      if (asked() > before) at.push(second);
    }
    expect(at).toEqual([1, 3, 7]);
    const silent = (request: Request) =>
      request.method === "GET"
        ? new Promise<Response>(() => {})
        : Response.json({ object: "error", message: "no such prompt" }, { status: 400 });
    house.engines.set(P, silent).set(D, silent);
    await clock.advance(60_000);
    void router.control.tend();
    expect(asked()).toBe(5);
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect([answer.status, answer.json.error.message]).toEqual([400, "no such prompt"]);
  });

  test("the worker's own key is sent, and no client's", async () => {
    const house = sglangHouse();
    const { router } = routerOver(house, sglang({ apiKeyEnv: "P_KEY" }), {
      env: { ADMIN: "admin-key", P_KEY: "p-key" },
    });
    await tend(router);
    expect(house.seen.map(({ url, authorization }) => [url, authorization])).toEqual([
      [P, "Bearer p-key"],
      [D, undefined],
    ]);
  });

  test.each([
    ["vLLM's route of that name", { vllm_config: "…" }, undefined],
    ["a text", "SGLang", undefined],
    ["null", null, undefined],
    ["a mode alone", { disaggregation_mode: "null" }, { role: "aggregated" }],
    [
      "numbers that cannot be",
      { disaggregation_mode: "prefill", disaggregation_bootstrap_port: 70_000, dp_size: 0 },
      { role: "prefill" },
    ],
    ["texts for numbers", { disaggregation_mode: "decode", dp_size: "2", version: 5 }, { role: "decode" }],
  ])("reading %s", (_what, json, expected) => {
    expect(readServerInfo(json)).toEqual(expected as never);
  });
});

describe("what Mooncake's bootstrap server tells", () => {
  const B = "http://p:8998";
  const config = {
    models: [{ id: "m", pools: [{ engine: "vllm", connector: "mooncake", prefill: [P], decode: [D] }] }],
  };

  test("makes the split possible, and its ranks take turns", async () => {
    const house = new EngineHouse();
    house.engines.set(B, () => Response.json({ "1": { engine_id: "e1" }, "0": { engine_id: "e0" } }));
    const { router } = routerOver(house, config);
    const prefill = router.services.fleet.worker("prefill-1")!;
    expect(prefill.target.mooncake).toBeUndefined();
    await tend(router);
    expect(house.seen.map(({ url, path }) => url + path)).toEqual([`${B}/query`]);
    const ranks = [0, 1, 2].map(() => {
      acquire(prefill, 1, 0).release();
      return prefill.target.mooncake;
    });
    expect(ranks).toEqual([
      { rank: 1, engineId: "e1" },
      { rank: 0, engineId: "e0" },
      { rank: 1, engineId: "e1" },
    ]);
  });

  test("is enough for a split request to reach decode", async () => {
    const house = new EngineHouse();
    const common = { engine: "vllm", connector: "mooncake", model: "m", fabric: createFabric() } as const;
    const prefill = makeEngine({ ...common, role: "prefill", sidePort: 8998, sideHost: "p" });
    house.engines.set(P, prefill);
    house.engines.set(D, makeEngine({ ...common, role: "decode" }));
    house.engines.set(B, respond({ ...prefill, dead: false, handle: prefill.handleSide! }));
    const { router } = routerOver(house, config);
    await tend(router);
    const answer = await call(router, "POST", "/v1/chat/completions", chat());
    expect([answer.status, answer.headers.get("x-router-path")]).toEqual([200, "disaggregated"]);
    const leg = house.seen.find(({ url, path }) => url === D && path === "/v1/chat/completions")!;
    expect(JSON.parse(leg.body).kv_transfer_params).toMatchObject({
      remote_bootstrap_addr: B,
      remote_engine_id: prefill.engineId,
    });
  });

  test("is asked for again after the worker was down: it may be another process with another engine id", async () => {
    const house = new EngineHouse();
    let id = "first";
    house.engines.set(B, () => Response.json({ "0": { engine_id: id } }));
    const { router } = routerOver(house, config);
    const prefill = router.services.fleet.worker("prefill-1")!;
    await tend(router);
    id = "second";
    await tend(router);
    expect(prefill.target.mooncake?.engineId).toBe("first");
    router.control.healthChanged(prefill, true);
    await tend(router);
    expect(prefill.target.mooncake?.engineId).toBe("second");
  });

  test.each([[null], [[]], [{}], [{ "0": null }], [{ "0": { engine_id: "" } }], [{ x: { engine_id: "e" } }]])(
    "%j names nobody",
    (json) => {
      expect(readMooncakeRanks(json)).toBeUndefined();
    },
  );
});
