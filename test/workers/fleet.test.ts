import { describe, expect, test } from "bun:test";
import { acquire } from "../../src/workers/lease.ts";
import { snapshot } from "../../src/workers/snapshot.ts";
import {
  breakerConfig,
  fleetConfig,
  healthConfig,
  makeFleet,
  makeInput,
  poolConfig,
  workerConfig,
} from "./fixtures.ts";

const twoModels = fleetConfig({
  models: [
    {
      id: "A",
      aliases: ["gpt-x"],
      adapters: ["lora-1"],
      pools: [poolConfig("a", { prefill: [workerConfig("ap")], decode: [workerConfig("ad")] })],
    },
    {
      id: "B",
      aliases: [],
      adapters: [],
      pools: [poolConfig("b", { engine: "vllm", workers: [workerConfig("bw")] })],
    },
  ],
});

describe("Fleet.resolve", () => {
  test("knows ids, aliases and adapters exactly as they are written, and nothing else", () => {
    const fleet = makeFleet(twoModels);
    expect(fleet.resolve("A")).toMatchObject({ model: { id: "A" }, engineModel: undefined });
    expect(fleet.resolve("gpt-x")).toMatchObject({ model: { id: "A" }, engineModel: "A" });
    expect(fleet.resolve("lora-1")).toMatchObject({ model: { id: "A" }, engineModel: undefined });
    for (const name of ["a", "A ", "", "constructor", "__proto__", "C"]) expect(fleet.resolve(name)).toBeUndefined();
  });

  test("a model has the workers of its own pools only", () => {
    const fleet = makeFleet(twoModels);
    expect(fleet.model("A")!.pools.flatMap((pool) => [...pool.prefill, ...pool.decode, ...pool.workers])).toEqual([
      fleet.worker("ap")!,
      fleet.worker("ad")!,
    ]);
  });
});

describe("Fleet.ready", () => {
  test("a model is ready with one usable prefill and decode worker of one pool, or one aggregated worker", () => {
    const fleet = makeFleet(twoModels);
    expect(fleet.ready(0).map(({ ready }) => ready)).toEqual([true, true]);
    fleet.drain("ap");
    fleet.drain("bw");
    expect(fleet.ready(0)).toEqual([
      { model: "A", ready: false, reason: 'pool "a": none of 1 prefill workers is usable' },
      { model: "B", ready: false, reason: 'pool "b": none of 1 aggregated workers is usable' },
    ]);
  });

  test("a prefill worker of one pool and a decode worker of another make nobody ready", () => {
    const half = (name: string) =>
      poolConfig(name, { prefill: [workerConfig(`${name}p`)], decode: [workerConfig(`${name}d`)] });
    const fleet = makeFleet(
      fleetConfig({ models: [{ id: "m", aliases: [], adapters: [], pools: [half("x"), half("y")] }] }),
    );
    fleet.drain("xp");
    fleet.drain("yd");
    expect(fleet.ready(0)[0]!.ready).toBe(false);
    fleet.worker("yd")!.draining = false;
    expect(fleet.ready(0)[0]!.ready).toBe(true);
  });

  test("does not flicker while the one half-open probe is under way", () => {
    const fleet = makeFleet(twoModels);
    const worker = fleet.worker("bw")!;
    for (let n = 0; n < 3; n++) worker.failed(0);
    expect(fleet.ready(500)[1]!.ready).toBe(false);
    const probe = acquire(worker, 1, 1000);
    expect(worker.usable(1000)).toBe(false);
    expect(fleet.ready(1000)[1]!.ready).toBe(true);
    probe.release();
  });
});

describe("Fleet.pools", () => {
  const pool = (name: string) => poolConfig(name, { engine: "vllm", workers: [workerConfig(`${name}w`)] });
  const config = fleetConfig({
    models: [{ id: "m", aliases: [], adapters: [], pools: [pool("x"), pool("y"), pool("z")] }],
  });
  const names = (fleet: ReturnType<typeof makeFleet>, rank?: (pool: { name: string }) => number) =>
    fleet.pools(fleet.model("m")!, 0, rank).map(({ name }) => name);

  test("puts those that can serve first, then the preferred ones, then the least loaded", () => {
    const fleet = makeFleet(config);
    acquire(fleet.worker("xw")!, 1, 0);
    expect(names(fleet)).toEqual(["y", "z", "x"]);
    expect(names(fleet, ({ name }) => (name === "x" ? 0 : 1))).toEqual(["x", "y", "z"]);
    fleet.drain("xw");
    expect(names(fleet, ({ name }) => (name === "x" ? 0 : 1))).toEqual(["y", "z", "x"]);
  });

  test("with a single pool gives the model's own list, without work", () => {
    const fleet = makeFleet();
    const model = fleet.model("m")!;
    expect(fleet.pools(model, 0)).toBe(model.pools);
  });
});

describe("Fleet at run time", () => {
  test("refuses a worker whose pool, name or address does not fit, and says why", () => {
    const fleet = makeFleet();
    const join = (name: string, pool = "default", url?: string) =>
      fleet.add({ model: "m", pool, role: "decode", worker: workerConfig(name, url ? { url } : {}) });
    expect(() => join("d3", "nowhere")).toThrow('No pool "nowhere" serves the model "m"');
    expect(() => join("d1")).toThrow('"d1" is there already');
    expect(() => join("d3", "default", "http://d1:8000")).toThrow("that address already");
    expect(join("d3").usable(0)).toBe(true);
    expect(fleet.worker("d3")!.pool).toBe("default");
  });

  test("a removed worker is gone from everywhere; removing it again says so", () => {
    const fleet = makeFleet();
    expect(fleet.remove("d1")).toBe(true);
    expect(fleet.remove("d1")).toBe(false);
    expect(fleet.worker("d1")).toBeUndefined();
    expect(fleet.model("m")!.pools[0]!.decode.map(({ name }) => name)).toEqual(["d2"]);
    expect(fleet.due(0).map(({ name }) => name)).not.toContain("d1");
  });

  test("a reload keeps the objects of workers that stay, with counters, breaker, health and draining", () => {
    const fleet = makeFleet();
    const p1 = fleet.worker("p1")!;
    const lease = acquire(p1, 50, 0);
    p1.failed(0);
    fleet.drain("d1");
    const d1 = fleet.worker("d1")!;
    d1.learn({ mooncake: [{ rank: 0, engineId: "e" }] });
    const next = fleetConfig();
    next.models[0]!.pools[0]!.prefill = [workerConfig("p1", { weight: 3, bootstrapPort: 9000 }), workerConfig("p3")];
    fleet.reload(next, new Map());
    expect(fleet.worker("p1")).toBe(p1);
    expect(p1.weight).toBe(3);
    expect(p1.target.bootstrapPort).toBe(9000);
    expect(p1.load.requests).toBe(1);
    expect(p1.breaker.failures).toBe(1);
    expect(fleet.worker("d1")).toBe(d1);
    expect(d1.draining).toBe(true);
    expect(d1.target.mooncake).toEqual({ rank: 0, engineId: "e" });
    expect(fleet.worker("p2")).toBeUndefined();
    expect(fleet.model("m")!.pools[0]!.prefill.map(({ name }) => name)).toEqual(["p1", "p3"]);
    lease.release();
    expect(p1.load.requests).toBe(0);
  });

  test("a worker that joined at run time survives a reload, one that the configuration no longer names does not", () => {
    const fleet = makeFleet();
    const joined = fleet.add({ model: "m", pool: "default", role: "decode", worker: workerConfig("extra") });
    const next = fleetConfig();
    next.models[0]!.pools[0]!.decode = [workerConfig("d2")];
    fleet.reload(next, new Map());
    expect(fleet.worker("extra")).toBe(joined);
    expect(fleet.model("m")!.pools[0]!.decode.map(({ name }) => name)).toEqual(["d2", "extra"]);
  });

  test("a configured worker takes its name back from one that joined with it", () => {
    const fleet = makeFleet();
    fleet.add({
      model: "m",
      pool: "default",
      role: "decode",
      worker: workerConfig("extra", { url: "http://joined:1" }),
    });
    const next = fleetConfig();
    next.models[0]!.pools[0]!.decode.push(workerConfig("extra"));
    fleet.reload(next, new Map());
    expect(fleet.model("m")!.pools[0]!.decode.map(({ url }) => url)).toEqual([
      "http://d1:8000",
      "http://d2:8000",
      "http://extra:8000",
    ]);
    expect(fleet.worker("extra")!.url).toBe("http://extra:8000");
  });

  test("a configured worker takes its address back from one that joined there in another role", () => {
    const fleet = makeFleet();
    const worker = workerConfig("extra", { url: "http://one-engine:1" });
    fleet.add({ model: "m", pool: "default", role: "decode", worker });
    const next = fleetConfig();
    next.models[0]!.pools[0]!.prefill.push(workerConfig("p3", { url: "http://one-engine:1" }));
    fleet.reload(next, new Map());
    expect([fleet.worker("extra"), fleet.worker("p3")?.role]).toEqual([undefined, "prefill"]);
    expect(fleet.model("m")!.pools[0]!.decode.map(({ name }) => name)).toEqual(["d1", "d2"]);
  });

  test("what runs at an address counts there, by whichever name or role it was sent, until it has ended", () => {
    const fleet = makeFleet();
    const pool = fleet.model("m")!.pools[0]!;
    const d1 = fleet.worker("d1")!;
    const leases = [acquire(d1, 1, 0), acquire(d1, 1, 0)];
    const next = fleetConfig();
    next.models[0]!.pools[0]!.decode = [workerConfig("other", { url: d1.url })];
    fleet.reload(next, new Map());
    leases.push(acquire(fleet.worker("other")!, 1, 0));
    expect(pool.inHandAt(d1.url)).toBe(3);
    fleet.remove("other");
    expect([pool.inHandAt(d1.url), pool.retired().length]).toEqual([3, 2]);
    for (const lease of leases) lease.release();
    expect([pool.inHandAt(d1.url), pool.retired().length]).toEqual([0, 0]);
  });

  test("a drained address stays drained when a reload calls it otherwise, as happens to those that are named by their places", () => {
    const fleet = makeFleet();
    fleet.drain("d2");
    const next = fleetConfig();
    next.models[0]!.pools[0]!.decode = [workerConfig("d1", { url: "http://d2:8000" }), workerConfig("d2")];
    next.models[0]!.pools[0]!.decode[1]!.url = "http://d3:8000";
    fleet.reload(next, new Map());
    expect(["d1", "d2"].map((name) => fleet.worker(name)!.draining)).toEqual([true, false]);
  });

  test("a reload brings new breaker and health settings to workers that stay", () => {
    const fleet = makeFleet();
    const worker = fleet.worker("d1")!;
    fleet.reload(
      fleetConfig({ breaker: { ...breakerConfig, failures: 1 }, health: { ...healthConfig, intervalMs: 0 } }),
      new Map(),
    );
    worker.failed(0);
    expect(worker.breaker.state(0)).toBe("open");
    expect(fleet.due(1e9)).toEqual([]);
  });

  test("a reload's shorter open time and interval let a worker be chosen as soon as they say", () => {
    const changes: string[] = [];
    const onBreaker = (_: unknown, to: string) => changes.push(to);
    const slow = { breaker: { ...breakerConfig, openMs: 3_600_000 }, health: { ...healthConfig, intervalMs: 600_000 } };
    const fleet = makeFleet(fleetConfig(slow), { events: { onBreaker, onHealth: (_, up) => changes.push(`${up}`) } });
    const set = fleet.model("m")!.pools[0]!.set("decode");
    const [d1, d2] = [fleet.worker("d1")!, fleet.worker("d2")!];
    for (let n = 0; n < 3; n++) d1.failed(1_000);
    for (let n = 0; n < 2; n++) {
      d2.health.begin(1_000);
      d2.health.report({ kind: "error" }, 1_000);
    }
    expect(set.candidates(1_000)).toEqual([]);
    fleet.reload(fleetConfig({ breaker: { ...breakerConfig, openMs: 10_000 } }), new Map());
    expect(fleet.due(6_000)).toContain(d2);
    const chosen = (now: number) => set.candidates(now).map(({ name }) => name);
    expect([10_999, 11_000, 30_999, 31_000].map(chosen)).toEqual([[], ["d1"], ["d1"], ["d1", "d2"]]);
    expect(changes).toEqual(["open", "false"]);
  });

  test("the prefix index forgets a worker that is removed, by hand or by a reload", () => {
    const fleet = makeFleet(fleetConfig({ policy: { prefill: "prefix-aware", decode: "prefix-aware" } }));
    const policy = fleet.model("m")!.pools[0]!.policy("decode");
    const input = makeInput("a long conversation ".repeat(200));
    const [d1, d2] = [fleet.worker("d1")!, fleet.worker("d2")!];
    for (const worker of [d1, d2]) policy.observe!(worker, input);
    expect(policy.reuse!([d1], input)).toBeGreaterThan(0);
    fleet.remove("d1");
    expect(policy.reuse!([d1], input)).toBe(0);
    expect(policy.reuse!([d2], input)).toBeGreaterThan(0);
    const next = fleetConfig({ policy: { prefill: "prefix-aware", decode: "prefix-aware" } });
    next.models[0]!.pools[0]!.decode = [workerConfig("d3")];
    fleet.reload(next, new Map());
    expect(fleet.model("m")!.pools[0]!.policy("decode")).toBe(policy);
    expect(policy.reuse!([d2], input)).toBe(0);
  });

  test("a reload whose keys are missing changes nothing", () => {
    const fleet = makeFleet();
    const before = fleet.workers();
    const next = fleetConfig({ models: [] });
    next.models.push({
      id: "other",
      aliases: [],
      adapters: [],
      pools: [poolConfig("o", { workers: [workerConfig("k", { apiKeyEnv: "K" })] })],
    });
    expect(() => fleet.reload(next, new Map())).toThrow('The key of worker "k" (K) was not loaded');
    expect(fleet.workers()).toEqual(before);
    expect(fleet.resolve("m")).toBeDefined();
    fleet.reload(next, new Map([["k", "secret"]]));
    expect(fleet.worker("k")!.apiKey).toBe("secret");
    expect(JSON.stringify(snapshot(fleet, 0))).not.toContain("secret");
  });

  test("a policy that did not change keeps what it knows; one that did is another", () => {
    const fleet = makeFleet(fleetConfig({ policy: { prefill: "prefix-aware", decode: "least-load" } }));
    const before = fleet.model("m")!.pools[0]!;
    const policy = before.policy("prefill");
    fleet.reload(fleetConfig({ policy: { prefill: "prefix-aware", decode: "round-robin" } }), new Map());
    const after = fleet.model("m")!.pools[0]!;
    expect(after.policy("prefill")).toBe(policy);
    expect(after.policy("decode").name).toBe("round-robin");
    expect(after.policy("aggregated").name).toBe("round-robin");
  });

  test("addresses that discovery expands are no workers themselves", () => {
    const fleet = makeFleet(
      fleetConfig({
        models: [
          {
            id: "m",
            aliases: [],
            adapters: [],
            pools: [poolConfig("d", { workers: [workerConfig("engines", { url: "dns+http://engines:8000" })] })],
          },
        ],
      }),
    );
    expect(fleet.workers()).toEqual([]);
    expect(fleet.ready(0)[0]!.ready).toBe(false);
  });

  test("tells changes of breakers and health with the worker they are of", () => {
    const seen: string[] = [];
    const fleet = makeFleet(fleetConfig(), {
      events: {
        onBreaker: (worker, to) => seen.push(`${worker.name} ${to}`),
        onHealth: (worker, healthy) => seen.push(`${worker.name} ${healthy ? "up" : "down"}`),
      },
    });
    const worker = fleet.worker("d1")!;
    for (let n = 0; n < 3; n++) worker.failed(0);
    for (let n = 0; n < 3; n++) {
      worker.health.begin(n * 5000);
      worker.health.report({ kind: "error" }, n * 5000);
    }
    worker.health.begin(20_000);
    worker.health.report({ kind: "answer", status: 200 }, 20_000);
    expect(seen).toEqual(["d1 open", "d1 down", "d1 up"]);
  });
});

describe("snapshot", () => {
  test("shows every worker with its state as plain data", () => {
    const fleet = makeFleet();
    const lease = acquire(fleet.worker("d1")!, 12.4, 0);
    for (let n = 0; n < 3; n++) fleet.worker("d2")!.failed(0);
    fleet.worker("p1")!.busy(0, 3000);
    fleet.drain("p2");
    const view = snapshot(fleet, 100);
    const workers = Object.fromEntries(view.models[0]!.pools[0]!.workers.map((worker) => [worker.name, worker]));
    expect(workers.d1).toMatchObject({ requestsInFlight: 1, queuedTokens: 12, usable: true, probedAgoMs: null });
    expect(workers.d2).toMatchObject({ breaker: "open", usable: false });
    expect(workers.p1).toMatchObject({ avoidedForMs: 2900, usable: true });
    expect(workers.p2).toMatchObject({ draining: true, usable: false });
    expect(view.ready).toBe(true);
    lease.release();
  });
});
