import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { WorkerEntry } from "../../src/config/worker.ts";
import type { PrefillRouter } from "../../src/create-router.ts";
import { readReport, writeReport } from "../../src/shared/load-report.ts";
import { divideMarks } from "../../src/shared/mark-records.ts";
import { type Mark, Marks, readMarks } from "../../src/shared/marks.ts";
import { MemoryStore } from "../../src/shared/memory-store.ts";
import { seal, unseal } from "../../src/shared/seal.ts";
import type { SharedStore } from "../../src/shared/store.ts";
import type { Worker } from "../../src/workers/worker.ts";
import { call } from "../fleet/house.ts";
import { ask, finish, World } from "../regions/world.ts";
import { Link, memoryOn } from "./links.ts";
import { pass } from "./pass.ts";

/** Routers over one world, each with a link of its own to one store. */
function routers(count: number, config: Record<string, unknown> = {}) {
  const world = new World();
  const store = memoryOn(world.clock);
  const links = Array.from({ length: count }, () => new Link(store, world.clock));
  const all = links.map((link) => world.router({ location: { region: "eu-west" }, ...config }, { store: link }));
  return { world, store, links, all };
}

const worker = (router: PrefillRouter, name: string) => router.services.fleet.worker(name)!;

describe("what routers tell each other", () => {
  test("a drain at one is obeyed by all, also by one that starts later and does not know who gave the order", async () => {
    const { world, store, all } = routers(3);
    await pass(world, all, 1_000);
    expect((await call(all[0]!, "POST", "/workers/p1-eu-west/drain")).status).toBe(200);
    await pass(world, all, 3_500);
    for (const router of all) expect(worker(router, "p1-eu-west").draining).toBeTrue();
    const late = world.router({}, { store });
    await pass(world, [late], 500);
    expect(worker(late, "p1-eu-west").draining).toBeTrue();
    expect(worker(late, "p2-eu-west").draining).toBeFalse();
  });

  test("a drain given while the marks before it are being sealed is told with the next exchange", async () => {
    const { world, all } = routers(2);
    await pass(world, all, 2_000);
    all[0]!.control.drain("p1-eu-west");
    await world.clock.advance(1_200);
    const tending = all[0]!.control.tend();
    all[0]!.control.drain("p2-eu-west");
    await tending;
    await pass(world, all, 3_500);
    expect(["p1-eu-west", "p2-eu-west"].map((name) => worker(all[1]!, name).draining)).toEqual([true, true]);
  });

  test("a mark that is taken back while the store is away is taken back there too", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const link = new Link(store, world.clock);
    const pods = { name: "us-east", engine: "openai", workers: [{ name: "pod", url: "dns+http://pods:80" }] };
    const config = { models: [{ id: "m", pools: [pods] }], regions: undefined };
    let listed = ["10.0.0.1", "10.0.0.2"];
    const router = world.router(config, { store: link, resolveHost: async () => listed });
    const marks = async () => {
      const { records } = await store.exchange("m/us-east", [], 0);
      return records.filter(({ key }) => key.startsWith("marks:")).map(({ text }) => text.slice(65));
    };
    await pass(world, [router], 1_000);
    await call(router, "POST", "/workers/pod-1/drain");
    await pass(world, [router], 2_000);
    expect((await marks()).join()).toContain("drain");
    link.state = "refused";
    listed = ["10.0.0.2"];
    await pass(world, [router], 16_000);
    link.state = "up";
    await pass(world, [router], 3_000);
    expect(await marks()).toEqual(["[]"]);
  });

  test("workers that join and leave at one do so at all; one with a key of its own stays where its key is", async () => {
    const { world, all } = routers(2);
    await pass(world, all, 500);
    const body = { model_id: "m", pool: "us-east", worker_type: "decode" };
    await call(all[0]!, "POST", "/workers", { ...body, name: "new", url: "http://new.us-east:1", weight: 3 });
    await call(all[0]!, "POST", "/workers", {
      ...body,
      name: "own",
      url: "http://own.us-east:1",
      api_key: "secret-key",
    });
    await call(all[0]!, "DELETE", "/workers/d2-us-east");
    await pass(world, all, 3_500);
    expect(worker(all[1]!, "new")).toMatchObject({
      url: "http://new.us-east:1",
      weight: 3,
      role: "decode",
      origin: "api",
    });
    expect(worker(all[1]!, "own")).toBeUndefined();
    expect(worker(all[1]!, "d2-us-east")).toBeUndefined();
    // Back again, and the latest word stands everywhere.
    await call(all[1]!, "POST", "/workers", { ...body, name: "d2-us-east", url: "http://decode-2.us-east:1" });
    await pass(world, all, 3_500);
    for (const router of all) expect(worker(router, "d2-us-east").draining).toBeFalse();
  });

  test("a worker that is deleted and joined again is followed: under another address, and out of its drain", async () => {
    const { world, all } = routers(2);
    await pass(world, all, 500);
    const body = { model_id: "m", pool: "us-east", worker_type: "decode", name: "new" };
    await call(all[0]!, "POST", "/workers", { ...body, url: "http://one.us-east:1" });
    await pass(world, all, 3_500);
    expect(worker(all[1]!, "new").url).toBe("http://one.us-east:1");
    await call(all[0]!, "DELETE", "/workers/new");
    await call(all[0]!, "POST", "/workers", { ...body, url: "http://two.us-east:1" });
    await pass(world, all, 3_500);
    expect(worker(all[1]!, "new").url).toBe("http://two.us-east:1");
    await call(all[0]!, "POST", "/workers/d2-us-east/drain");
    await pass(world, all, 3_500);
    expect(worker(all[1]!, "d2-us-east").draining).toBeTrue();
    await call(all[0]!, "DELETE", "/workers/d2-us-east");
    await call(all[0]!, "POST", "/workers", { ...body, name: "d2-us-east", url: "http://decode-2.us-east:1" });
    await pass(world, all, 3_500);
    for (const router of all) expect(worker(router, "d2-us-east").draining).toBeFalse();
  });

  test("workers that join without a name at several routers at once have names of their own, which tell no address, and all have all", async () => {
    const { world, all } = routers(2);
    await pass(world, all, 500);
    const body = { model_id: "m", pool: "us-east", worker_type: "decode" };
    const given: string[] = [];
    for (let n = 1; n <= 20; n++) {
      const { json } = await call(all[n % 2]!, "POST", "/workers", { ...body, url: `http://10.0.0.${n}:1` });
      given.push(json.worker.name);
    }
    for (const name of given) expect(name).toMatch(/^decode-[0-9a-f]{4,5}$/);
    await pass(world, all, 3_500);
    for (const name of given) expect(worker(all[1]!, name).url).toBe(worker(all[0]!, name).url);
    expect(new Set(given).size).toBe(20);
  });

  test("a worker without a name of its own, which another has here, is taken in under a free one; a chosen name is refused, and that is told once", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const lines: string[] = [];
    const marks: Mark[] = ["decode-1", "mine"].map((name, n) => {
      const url = `http://there-${n}.us-east:1`;
      const settings = { url, name, weight: 1, bootstrapHost: "there", kvPort: 5600, tpSize: 1, ppSize: 1 };
      return { worker: name, url, at: Date.now(), what: "join", role: "decode", settings };
    });
    const router = world.router({ log: { level: "info" } }, { store, sink: (line) => lines.push(line) });
    const body = { model_id: "m", pool: "us-east", worker_type: "decode" };
    for (const name of ["decode-1", "mine"])
      await call(router, "POST", "/workers", { ...body, name, url: `http://here-${name}:1` });
    const text = await seal(JSON.stringify(marks), "m/us-east", "admin-key");
    await store.exchange("m/us-east", [{ key: "marks:earlier", text, ttlMs: 600_000 }], 0);
    await pass(world, [router], 130_000);
    const joined = router.services.fleet.workers().filter(({ origin }) => origin === "api");
    expect(joined.map(({ name, url }) => [name, url])).toEqual([
      ["decode-1", "http://here-decode-1:1"],
      ["mine", "http://here-mine:1"],
      [expect.stringMatching(/^decode-[0-9a-f]{4}$/), "http://there-0.us-east:1"],
    ]);
    const refused = lines.filter((line) => line.includes("worker_join_refused"));
    expect(refused.map((line) => JSON.parse(line))).toMatchObject([
      { level: "warn", worker: "mine", reason: 'A worker with the name "mine" is there already' },
    ]);
  });

  test("a worker at an address without a port, and marks of one millisecond, are the same to all", () => {
    const settings = { url: "http://host", name: "h", weight: 1, bootstrapHost: "host" } as WorkerEntry;
    const join: Mark = { worker: "h", url: "http://host", at: 1, what: "join", role: "decode", settings };
    const [text] = divideMarks([join]).texts;
    expect(readMarks(text!)![0]!.settings!.url).toBe("http://host");
    for (const order of [
      ["drain", "leave"],
      ["leave", "drain"],
    ] as const) {
      const marks = new Marks();
      for (const what of order) marks.take({ worker: "h", url: "http://host", at: 7, what });
      expect(marks.about("http://host", 8)!.what).toBe("leave");
    }
  });

  test("a worker that a reload brings back has left no longer, for who begins later; elsewhere it stays out until its own reload", async () => {
    const { world, store, all } = routers(2);
    await pass(world, all, 500);
    await call(all[0]!, "DELETE", "/workers/d2-us-east");
    await pass(world, all, 3_500);
    all[0]!.control.reload(structuredClone(all[0]!.config), { workerKeys: new Map(), clientKeys: [], adminKey: "k" });
    await pass(world, all, 3_500);
    const late = world.router({}, { store });
    await pass(world, [late], 500);
    expect([all[0]!, all[1]!, late].map((router) => worker(router, "d2-us-east") !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
  });

  test("a mark that is read before a pod is there holds for it when it comes", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const pods = { name: "us-east", engine: "openai", workers: [{ name: "pod", url: "dns+http://pods:80" }] };
    const config = { models: [{ id: "m", pools: [pods] }], regions: undefined };
    const found = Promise.withResolvers<string[]>();
    const first = world.router(config, {
      store: new Link(store, world.clock),
      resolveHost: async () => ["10.0.0.1", "10.0.0.2"],
    });
    const second = world.router(config, { store: new Link(store, world.clock), resolveHost: () => found.promise });
    await pass(world, [first, second], 1_000);
    await call(first, "POST", "/workers/pod-1/drain");
    await pass(world, [first, second], 3_500);
    expect(second.services.fleet.workers()).toEqual([]);
    found.resolve(["10.0.0.1", "10.0.0.2"]);
    await pass(world, [first, second], 1_000);
    expect(second.services.fleet.workers().map(({ url, draining }) => [url, draining])).toEqual([
      ["http://10.0.0.1", true],
      ["http://10.0.0.2", false],
    ]);
  });

  test("who comes to an address that the DNS has let go of is somebody else: no mark holds for it", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const pods = { name: "us-east", engine: "openai", workers: [{ name: "pod", url: "dns+http://pods:80" }] };
    const config = { models: [{ id: "m", pools: [pods] }], regions: undefined };
    let listed = ["10.0.0.1", "10.0.0.2"];
    const all = [1, 2].map(() =>
      world.router(config, { store: new Link(store, world.clock), resolveHost: async () => listed }),
    );
    const seen = () =>
      all.map(({ services }) =>
        services.fleet
          .workers()
          .map(({ url, draining }) => `${url} ${draining}`)
          .sort(),
      );
    await pass(world, all, 1_000);
    await call(all[0]!, "POST", "/workers/pod-1/drain");
    await call(all[0]!, "DELETE", "/workers/pod-2");
    await pass(world, all, 6_000);
    expect(seen()).toEqual([["http://10.0.0.1 true"], ["http://10.0.0.1 true"]]);
    listed = ["10.0.0.3"];
    await pass(world, all, 90_000);
    listed = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    all.push(world.router(config, { store: new Link(store, world.clock), resolveHost: async () => listed }));
    await pass(world, all, 15_000);
    const fresh = ["http://10.0.0.1 false", "http://10.0.0.2 false", "http://10.0.0.3 false"];
    expect(seen()).toEqual([fresh, fresh, fresh]);
  });

  test("a mark means the worker at its address, whatever another router calls it", async () => {
    const { world, all } = routers(2);
    await pass(world, all, 500);
    const body = { model_id: "m", pool: "us-east", worker_type: "decode", api_key: "k" };
    // With keys of their own, so that neither is told to the other router: names are given twice, as by DNS.
    await call(all[0]!, "POST", "/workers", { ...body, name: "pod-1", url: "http://x.us-east:1" });
    await call(all[0]!, "POST", "/workers", { ...body, name: "pod-2", url: "http://y.us-east:1" });
    await call(all[1]!, "POST", "/workers", { ...body, name: "pod-1", url: "http://y.us-east:1" });
    await call(all[1]!, "POST", "/workers", { ...body, name: "pod-2", url: "http://x.us-east:1" });
    await call(all[0]!, "POST", "/workers/pod-1/drain");
    await call(all[0]!, "DELETE", "/workers/pod-2");
    await pass(world, all, 3_500);
    expect([worker(all[1]!, "pod-2").draining, worker(all[1]!, "pod-1")]).toEqual([true, undefined!]);
  });

  test("what others have in hand is added to one's own, fades when it is not renewed, and is gone after ten seconds", async () => {
    const { world, links, all } = routers(3);
    const there = worker(all[0]!, "d1-eu-west");
    there.load.requests = 6;
    there.load.tokens = 900;
    worker(all[1]!, "d1-eu-west").load.requests = 2;
    await pass(world, all, 2_500);
    const told = (router: PrefillRouter) => {
      const sum = { requests: 0, tokens: 0 };
      for (const { elsewhere } of router.services.fleet.model("m")!.pools[0]!.decode) {
        sum.requests += elsewhere.requests;
        sum.tokens += elsewhere.tokens;
      }
      return { requests: Math.round(sum.requests * 1e6) / 1e6, tokens: Math.round(sum.tokens * 1e6) / 1e6 };
    };
    expect(told(all[2]!)).toEqual({ requests: 8, tokens: 900 });
    expect(told(all[0]!)).toEqual({ requests: 2, tokens: 0 });
    // A report is old when it comes: it says more of the pool than of the worker.
    const [first, second] = ["d1-eu-west", "d2-eu-west"].map((name) => worker(all[2]!, name).elsewhere.requests);
    expect(first! - second!).toBeCloseTo(0.3 * 8, 5);
    links[0]!.state = "refused";
    links[1]!.state = "refused";
    await pass(world, all, 6_000);
    expect(told(all[2]!).requests).toBeWithin(1, 7);
    await pass(world, all, 6_000);
    expect(told(all[2]!)).toEqual({ requests: 0, tokens: 0 });
  });

  test("a report means the worker at its address, whatever the reporting router calls it", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const pods = { name: "us-east", engine: "openai", workers: [{ name: "pod", url: "dns+http://pods:80" }] };
    const config = { models: [{ id: "m", pools: [pods] }], regions: undefined };
    let listed = ["10.0.0.1", "10.0.0.2"];
    const start = () => world.router(config, { store, resolveHost: async () => listed });
    const first = start();
    await pass(world, [first], 1_000);
    // A pod was replaced, and its number given anew: the router that starts now counts otherwise.
    listed = ["10.0.0.2", "10.0.0.9"];
    await pass(world, [first], 11_000);
    const all = [first, start()] as const;
    const at = (router: PrefillRouter, url: string) => router.services.fleet.workers().find((one) => one.url === url)!;
    await pass(world, all, 1_000);
    expect(all.map((router) => at(router, "http://10.0.0.2").name)).toEqual(["pod-2", "pod-1"]);
    at(first, "http://10.0.0.2").load.requests = 10;
    for (let n = 0; n < 5; n++) at(first, "http://10.0.0.9").failed(world.clock.now());
    await pass(world, all, 2_500);
    const [two, nine] = ["http://10.0.0.2", "http://10.0.0.9"].map((url) => at(all[1], url)) as [Worker, Worker];
    expect(two.elsewhere.requests).toBeGreaterThan(nine.elsewhere.requests);
    const [pool] = all[1].services.fleet.model("m")!.pools;
    expect(pool!.set("aggregated").candidates(world.clock.now())).toEqual([two]);
  });

  test("a router that is gone fades once and for all, also when the store's clock is set back", async () => {
    const world = new World();
    let shift = 10_000_000;
    const store = new MemoryStore(() => world.clock.now() + shift);
    const [here, gone] = [world.router({}, { store }), world.router({}, { store })] as const;
    const there = worker(here, "d1-us-east");
    worker(gone, "d1-us-east").load.requests = 50;
    await pass(world, [here, gone], 3_000);
    expect(there.elsewhere.requests).toBeGreaterThan(0);
    shift -= 3_600_000;
    // While it lives it is heard, though nothing changes.
    await pass(world, [here, gone], 15_000);
    expect(there.elsewhere.requests).toBeGreaterThan(0);
    shift -= 3_600_000;
    await pass(world, [here], 12_000);
    let most = 0;
    for (let second = 0; second < 150; second++) {
      await pass(world, [here], 1_000);
      most = Math.max(most, there.elsewhere.requests);
    }
    expect(most).toBe(0);
  });

  test("a breaker that opens at one warns the others: they avoid the worker, and would use it if there were no other", async () => {
    const { world, all } = routers(2, { policy: { prefill: "least-load", decode: "least-load" } });
    for (let n = 0; n < 5; n++) worker(all[0]!, "p1-eu-west").failed(world.clock.now());
    await pass(world, all, 2_500);
    const warned = worker(all[1]!, "p1-eu-west");
    const pool = all[1]!.services.fleet.model("m")!.pools[0]!;
    expect(warned.usable(world.clock.now())).toBeTrue();
    expect(
      pool
        .set("prefill")
        .candidates(world.clock.now())
        .map(({ name }) => name),
    ).toEqual(["p2-eu-west"]);
    worker(all[1]!, "p2-eu-west").draining = true;
    expect(pool.set("prefill").candidates(world.clock.now())).toEqual([warned]);
    worker(all[1]!, "p2-eu-west").draining = false;
    // It has served this router since: that counts more than what others say.
    await world.clock.advance(10);
    warned.succeeded(world.clock.now());
    await pass(world, all, 4_000);
    expect(pool.set("prefill").candidates(world.clock.now())).toHaveLength(2);
  });

  test("the next turn of a conversation goes where the last one went, at whichever router it comes in", async () => {
    const { world, all } = routers(2);
    const text = (length: number) => Array.from({ length }, (_, n) => `word${(n * 7919) % 1009}`).join(" ");
    const turns = Array.from({ length: 8 }, (_, n) => `${n} ${text(700)}`);
    const first = await finish(
      world,
      turns.map((content) => ask(all[0]!, { content, from: "50.1,8.7" })),
    );
    await pass(world, all, 2_500);
    const said = turns.map((content) => `${content} and ${text(40)}`);
    const next = await finish(
      world,
      said.map((content) => ask(all[1]!, { content, from: "53.3,-6.3" })),
    );
    for (const [n, { pool, prefill }] of first.entries())
      expect([n, next[n]!.pool, next[n]!.prefill]).toEqual([n, pool, prefill]);
    // Not by chance: who is told nothing goes by distance.
    const alone = world.router({ location: { region: "eu-west" } });
    const other = await finish(
      world,
      said.map((content) => ask(alone, { content, from: "53.3,-6.3" })),
    );
    expect(other.filter(({ prefill }, n) => prefill === first[n]!.prefill).length).toBeLessThan(6);
  });

  test("a pool costs a router at most one exchange a second under load, and nothing is written at rest", async () => {
    const { world, links, all } = routers(2);
    await pass(world, all, 10_000);
    expect(links[0]!.writes).toEqual([]);
    const pools = 4;
    expect(links[0]!.exchanges).toBeWithin(6 * pools, 8 * pools);
    const before = links[0]!.exchanges;
    const pending = [];
    for (let second = 0; second < 5; second++) {
      for (let n = 0; n < 10; n++)
        pending.push(ask(all[0]!, { session: `s${second} ${n}`, content: `${second} ${n} ${"word ".repeat(200)}` }));
      await pass(world, all, 1_000);
    }
    await finish(world, pending);
    expect(links[0]!.exchanges - before).toBeLessThan(6 * pools);
    const times = links[0]!.writes.filter(({ topic }) => topic === "m/eu-west").map(({ at }) => at);
    expect(times.length).toBeWithin(3, 8);
    for (const [index, at] of times.entries())
      if (index > 0) expect(at - times[index - 1]!).toBeGreaterThanOrEqual(1_000);
    await pass(world, all, 3_000);
    const written = links[0]!.writes.length;
    await pass(world, all, 10_000);
    expect(links[0]!.writes.length).toBe(written);
    // Nor is it asked more often after the store was away.
    links[0]!.state = "refused";
    await pass(world, all, 3_000);
    links[0]!.state = "up";
    await pass(world, all, 5_000);
    const rested = links[0]!.exchanges;
    await pass(world, all, 10_000);
    expect(links[0]!.exchanges - rested).toBeWithin(6 * pools, 8 * pools);
  });

  test("a thousand requests in a second are told in a few kilobytes", async () => {
    const { world, links, all } = routers(1);
    const pending = Array.from({ length: 300 }, (_, n) =>
      ask(all[0]!, { content: `${n} ${"long prompt ".repeat(100)}` }),
    );
    await pass(world, all, 1_500);
    await finish(world, pending);
    await pass(world, all, 1_500);
    for (const { bytes } of links[0]!.writes) expect(bytes).toBeLessThan(4_000);
  });
});

describe("what stands in the store is not trusted", () => {
  test("whatever it is, no router falls over, serves less, or loses a worker", async () => {
    const { world, store, all } = routers(1);
    const [router] = all as [PrefillRouter];
    const names = router.control.list().workers.map(({ name }) => name);
    const forged = JSON.stringify([
      { worker: "p1-eu-west", at: Date.now() + 1e6, what: "leave" },
      { worker: "evil", at: Date.now(), what: "join", role: "prefill", settings: { url: "http://evil:1" } },
    ]);
    const texts = [
      "",
      "{",
      "null",
      "[]",
      "1e999",
      '{"v":1}',
      '{"v":2,"w":{},"p":{}}',
      "x".repeat(200_000),
      "\u0000",
      '{"v":1,"w":{"p1-eu-west":[-1,0,0]},"p":{}}',
      '{"v":1,"w":{"p1-eu-west":[1e308,1e308,0]},"p":{}}',
      '{"v":1,"w":{"__proto__":[1,1,1],"constructor":[1,1,1]},"p":{"__proto__":"AAAA"}}',
      '{"v":1,"w":{},"p":{"p1-eu-west":"%%%"}}',
      '{"v":1,"w":{"p1-eu-west":["1",null,7]},"p":{}}',
      forged,
      await seal(forged, "m/eu-west", "another key"),
      await seal(forged, "m/us-east", "admin-key"),
      `${"0".repeat(64)}.${forged}`,
    ];
    for (const [n, text] of texts.entries()) {
      await store.exchange(
        "m/eu-west",
        [
          { key: `load:poison${n}`, text, ttlMs: 60_000 },
          { key: `marks:poison${n}`, text, ttlMs: 60_000 },
          { key: `?${n}`, text, ttlMs: 60_000 },
        ],
        0,
      );
    }
    await pass(world, all, 3_000);
    expect(router.control.list().workers.map(({ name }) => name)).toEqual(names);
    for (const { elsewhere, draining } of router.services.fleet.workers()) {
      expect([elsewhere.requests, elsewhere.tokens, draining]).toEqual([0, 0, false]);
    }
    const [told] = await finish(world, [ask(router)]);
    expect(told!.whole).toBeTrue();
  });

  test("any text is a report, a list of marks, or undefined; reading never throws", async () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((json) => `{"v":1,"w":${json},"p":${json}}`),
        ),
        (text) => {
          const report = readReport(text);
          if (report !== undefined)
            for (const [, [requests]] of report.workers) expect(requests).toBeGreaterThanOrEqual(0);
          readMarks(text);
        },
      ),
      { numRuns: 2_000 },
    );
    const hashes = [0, 1, 0x7fffffff, 0x80000000, 0xffffffff];
    const report = { workers: new Map([["w", [3, 500, 1] as const]]), prefixes: new Map([["w", hashes]]) };
    expect(readReport(writeReport(report))).toEqual(report);
  });

  test("a seal holds for its text, its pool and its key, and for nothing else", async () => {
    const sealed = await seal("text", "m/a", "key");
    expect(await unseal(sealed, "m/a", "key")).toBe("text");
    for (const [text, topic, key] of [
      [sealed, "m/b", "key"],
      [sealed, "m/a", "other"],
      [`${sealed}!`, "m/a", "key"],
      ["text", "m/a", "key"],
    ] as const) {
      expect(await unseal(text, topic, key)).toBeUndefined();
    }
  });

  test("a store that answers nonsense, throws at once or never answers is a store that cannot be reached", async () => {
    const nonsense = [
      () => Promise.resolve(undefined),
      () => Promise.resolve({ cursor: 1, records: [null] }),
      () => Promise.resolve({ cursor: Number.NaN, records: [{ key: 1, text: 2, ageMs: "x" }] }),
      () => {
        throw new Error("at once");
      },
      () => new Promise(() => {}),
    ];
    for (const exchange of nonsense) {
      const world = new World();
      const lines: string[] = [];
      const store = { exchange } as unknown as SharedStore;
      const router = world.router({ log: { level: "info" } }, { store, sink: (line) => lines.push(line) });
      await pass(world, [router], 6_000);
      const [told] = await finish(world, [ask(router)]);
      expect(told!.whole).toBeTrue();
      // Said once, not once a second.
      expect(lines.filter((line) => line.includes('"event":"store"')).length).toBe(1);
    }
  });
});

test("marks: one that could not be acted on is news again; what is said of an address holds for a day", () => {
  const marks = new Marks();
  const mark = marks.make({ worker: "a", url: "http://a:1", what: "drain" }, 1_000);
  expect(marks.take(mark)).toBeFalse();
  expect(marks.about("http://a:1", 1_000)).toBe(mark);
  expect(marks.about("http://a:1", 90_000_000)).toBeUndefined();
  marks.forget(mark);
  expect(marks.about("http://a:1", 1_000)).toBeUndefined();
  expect(marks.take(mark)).toBeTrue();
});

test("marks: whatever the order in which records come in, all routers end with the same", () => {
  const mark = fc.record({
    worker: fc.constantFrom("a", "b", "c"),
    at: fc.integer({ min: 1, max: 1_000 }),
    what: fc.constantFrom("drain", "leave", "join") as fc.Arbitrary<"drain" | "leave" | "join">,
  });
  const unique = fc.uniqueArray(mark, { selector: ({ worker, at }) => `${worker} ${at}`, maxLength: 20 });
  fc.assert(
    fc.property(
      unique.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length }))),
      ([list, shuffled]) => {
        const [a, b] = [new Marks(), new Marks()];
        for (const one of list) a.take(one);
        for (const one of shuffled) b.take(one);
        const sorted = (marks: Marks) => marks.list(1_000).sort((x, y) => (x.worker < y.worker ? -1 : 1));
        expect(sorted(b)).toEqual(sorted(a));
        // And whoever acts now has the last word, even with a clock that is behind.
        expect(a.make({ worker: "a", what: "leave" }, 5).at).toBeGreaterThan(Math.max(0, ...list.map(({ at }) => at)));
      },
    ),
  );
});
