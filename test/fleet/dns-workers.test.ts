import { describe, expect, test } from "bun:test";
import { ConfigError, parseConfig } from "../../src/config/load.ts";
import { createRouter, type PrefillRouter } from "../../src/create-router.ts";

import { acquire } from "../../src/workers/lease.ts";
import { World } from "../regions/world.ts";
import { memoryOn } from "../shared/links.ts";
import { pass } from "../shared/pass.ts";
import { ManualClock, settle } from "../simulator/support.ts";
import { ADMIN, call, EngineHouse, names, routerOver, tend } from "./house.ts";

const REFRESH_MS = 5_000;
/** What is missing from so many answers in a row is gone. */
const GONE_AFTER = 3;

/** A DNS whose records a test writes; `Error` = the lookup fails. */
class Records {
  asked: string[] = [];
  answer: readonly string[] | Error = [];
  readonly resolve = async (host: string): Promise<readonly string[]> => {
    this.asked.push(host);
    if (this.answer instanceof Error) throw this.answer;
    return this.answer;
  };
}

function dnsConfig(more: object = {}) {
  const worker = { url: "dns+http://engines.local:8000/base", name: "pod", ...more };
  return { models: [{ id: "m", pools: [{ engine: "vllm", workers: [worker] }] }] };
}

/** A pool of just these. */
function poolOf(...workers: unknown[]) {
  return { health: { intervalMs: 0 }, models: [{ id: "m", pools: [{ engine: "vllm", workers }] }] };
}

function start(config: Record<string, unknown> = dnsConfig()) {
  const records = new Records();
  const clock = new ManualClock();
  const { router, log } = routerOver(new EngineHouse(), config, { clock, resolveHost: records.resolve });
  async function refresh(answer: Records["answer"]): Promise<string[]> {
    records.answer = answer;
    await clock.advance(REFRESH_MS);
    await tend(router);
    return names(router);
  }
  /** The same answer until what it lacks is gone. */
  async function settled(answer: Records["answer"]): Promise<string[]> {
    for (let n = 1; n < GONE_AFTER; n++) await refresh(answer);
    return refresh(answer);
  }
  function reload(next: object): void {
    router.control.reload(parseConfig(JSON.stringify(next)), { workerKeys: new Map(), clientKeys: [] });
  }
  const fleet = router.services.fleet;
  /** Those that requests go to. */
  const chosen = () =>
    fleet
      .model("m")!
      .pools[0]!.set("aggregated")
      .candidates(clock.now())
      .map(({ name }) => name);
  return { records, clock, router, log, refresh, settled, reload, chosen, fleet };
}

/** Several names, each with records of its own. */
function startNamed(config: Record<string, unknown>, lists: Record<string, readonly string[] | Error>) {
  const clock = new ManualClock();
  const resolveHost = async (host: string): Promise<readonly string[]> => {
    const answer = lists[host] ?? [];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const { router } = routerOver(new EngineHouse(), config, { clock, resolveHost });
  const { fleet } = router.services;
  async function refresh(times = 1): Promise<string[]> {
    for (let n = 0; n < times; n++) {
      await clock.advance(REFRESH_MS);
      await tend(router);
    }
    return urls();
  }
  function reload(next: object): void {
    router.control.reload(parseConfig(JSON.stringify(next)), { workerKeys: new Map(), clientKeys: [] });
  }
  const urls = () => fleet.workers().map(({ url }) => url);
  const at = (url: string) => fleet.workers().find((worker) => worker.url === url)!;
  /** Addresses that requests go to. */
  const chosen = () =>
    fleet
      .model("m")!
      .pools[0]!.set("aggregated")
      .candidates(clock.now())
      .map(({ url }) => url);
  return { router, clock, fleet, refresh, reload, at, chosen };
}

/** The entry of `a.local`, and so on; its addresses have port 1. */
function entry(letter: string, more: object = {}) {
  return { url: `dns+http://${letter}.local:1`, name: letter, ...more };
}

describe("a worker whose address is a name", () => {
  test("is one worker per address, named by number, with the settings of the entry", async () => {
    const { router, refresh, records } = start(dnsConfig({ weight: 3, apiKeyEnv: "ADMIN" }));
    expect(router.control.list().total).toBe(0);
    expect(await refresh(["10.0.0.2", "10.0.0.1", "fd00::1"])).toEqual(["pod-1", "pod-2", "pod-3"]);
    expect(records.asked).toEqual(["engines.local"]);
    expect(router.control.list().workers.map(({ url, weight, origin }) => [url, weight, origin])).toEqual([
      ["http://10.0.0.1:8000/base", 3, "dns"],
      ["http://10.0.0.2:8000/base", 3, "dns"],
      ["http://[fd00::1]:8000/base", 3, "dns"],
    ]);
    expect(router.services.fleet.worker("pod-1")!.apiKey).toBe(ADMIN);
  });

  test("is looked up every five seconds", async () => {
    const { clock, router, records } = start();
    await tend(router);
    await clock.advance(REFRESH_MS - 1);
    await tend(router);
    expect(records.asked.length).toBe(1);
    await clock.advance(1);
    await tend(router);
    expect(records.asked.length).toBe(2);
  });

  test("one lookup at a time; one that does not end is taken as lost after 30 s, and its late answer is not believed", async () => {
    const clock = new ManualClock();
    const lookups: ((addresses: string[]) => void)[] = [];
    const resolveHost = () => new Promise<string[]>((resolve) => lookups.push(resolve));
    const { router } = routerOver(new EngineHouse(), dnsConfig(), { clock, resolveHost });
    void router.control.tend();
    await clock.advance(29_999);
    void router.control.tend();
    expect(lookups.length).toBe(1);
    await clock.advance(1);
    void router.control.tend();
    expect(lookups.length).toBe(2);
    lookups[0]!(["10.0.0.1"]);
    await settle();
    expect(names(router)).toEqual([]);
    lookups[1]!(["10.0.0.2"]);
    await settle();
    expect(router.control.one("pod-1").url).toBe("http://10.0.0.2:8000/base");
  });

  test("prefill workers name their own address as bootstrap host, unless another was configured", async () => {
    const prefill = [{ url: "dns+http://p.local:1", name: "a" }];
    const other = [{ url: "dns+http://p.local:1", name: "a", bootstrapHost: "gateway" }];
    for (const [list, host] of [
      [prefill, "[fd00::1]"],
      [other, "gateway"],
    ] as const) {
      const pool = { engine: "sglang", prefill: list, decode: ["http://d:1"] };
      const { refresh, fleet } = start({ models: [{ id: "m", pools: [pool] }] });
      await refresh(["fd00::1"]);
      expect(fleet.worker("a-1")!.target.bootstrapHost).toBe(host);
    }
  });

  test("an address that disappears gets nothing new and leaves when its last request has", async () => {
    const { refresh, fleet, log } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    const gone = fleet.worker("pod-1")!;
    const lease = acquire(gone, 1, 0);
    expect(await refresh(["10.0.0.2"])).toEqual(["pod-1", "pod-2"]);
    expect(gone.draining).toBe(true);
    expect(
      fleet
        .model("m")!
        .pools[0]!.set("aggregated")
        .candidates(0)
        .map(({ name }) => name),
    ).toEqual(["pod-2"]);
    // A new pod does not take the name of one that still works.
    expect(await refresh(["10.0.0.2", "10.0.0.3"])).toEqual(["pod-1", "pod-2", "pod-3"]);
    lease.release();
    expect(await refresh(["10.0.0.2", "10.0.0.3"])).toEqual(["pod-2", "pod-3"]);
    expect(await refresh(["10.0.0.2", "10.0.0.3", "10.0.0.4"])).toEqual(["pod-2", "pod-3", "pod-1"]);
    expect(gone.load.requests).toBe(0);
    expect(log.filter(({ event }) => event === "worker_left")).toEqual([
      expect.objectContaining({ worker: "pod-1", origin: "dns" }),
    ]);
  });

  test("an address that comes back while it drains is the same worker again", async () => {
    const { refresh, fleet } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    const worker = fleet.worker("pod-1")!;
    const lease = acquire(worker, 1, 0);
    await refresh(["10.0.0.2"]);
    await refresh(["10.0.0.1", "10.0.0.2"]);
    expect(fleet.worker("pod-1")).toBe(worker);
    expect([worker.draining, worker.load.requests]).toEqual([false, 1]);
    lease.release();
  });

  test.each([["no addresses"], ["ENOTFOUND"]])(
    "a lookup that tells of nobody (%s) changes nothing and is reported once per outage",
    async (what) => {
      const nothing = what === "ENOTFOUND" ? Object.assign(new Error("queryA failed"), { code: what }) : [];
      const { refresh, log } = start();
      await refresh(["10.0.0.1"]);
      expect(await refresh(nothing)).toEqual(["pod-1"]);
      await refresh(nothing);
      expect(await refresh(["10.0.0.1"])).toEqual(["pod-1"]);
      expect(
        log.filter(({ event }) => event === "dns_lookup").map(({ level, host, reason }) => [level, host, reason]),
      ).toEqual([
        ["warn", "engines.local", what === "ENOTFOUND" ? what : "it has no addresses"],
        ["info", "engines.local", undefined],
      ]);
    },
  );

  test.each([
    ["fe80::1%eth0"],
    [""],
    ["not an address"],
    ["engines.local"],
    ["10.0.0.256"],
    ["10.0.0.2/x"],
    ["::1]:9/"],
    [":::"],
  ])(
    "an answer that is no address for a URL (%j) is nobody, and a lookup that tells of such only changes nothing",
    async (odd) => {
      const { refresh, log, fleet } = start();
      expect(await refresh([odd])).toEqual([]);
      expect(await refresh([odd, "10.0.0.1", "fd00::1"])).toEqual(["pod-1", "pod-2"]);
      expect(fleet.workers().map(({ url }) => url)).toEqual([
        "http://10.0.0.1:8000/base",
        "http://[fd00::1]:8000/base",
      ]);
      expect(await refresh([odd])).toEqual(["pod-1", "pod-2"]);
      expect(log.filter(({ event }) => event === "dns_lookup").map(({ level, reason }) => [level, reason])).toEqual([
        ["warn", "it has no addresses that can stand in a URL"],
        ["info", undefined],
        ["warn", "it has no addresses that can stand in a URL"],
      ]);
    },
  );

  test("one that an admin drains stays drained, and one he takes out stays out until its address has left the DNS", async () => {
    const { refresh, settled, router, fleet } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "POST", "/workers/pod-1/drain");
    await call(router, "DELETE", "/workers/pod-2");
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1"]);
    expect(fleet.worker("pod-1")!.draining).toBe(true);
    const lease = acquire(fleet.worker("pod-1")!, 1, 0);
    await refresh(["10.0.0.2"]);
    await refresh(["10.0.0.1", "10.0.0.2"]);
    expect(fleet.worker("pod-1")!.draining).toBe(true);
    lease.release();
    expect(await settled(["10.0.0.9"])).toEqual(["pod-2"]);
    expect(await refresh(["10.0.0.2", "10.0.0.9"])).toEqual(["pod-2", "pod-1"]);
  });

  test("an address that stands in the pool by itself too is one worker", async () => {
    const pool = { engine: "vllm", workers: ["dns+http://engines.local:1", "http://10.0.0.1:1"] };
    const { refresh } = start({ models: [{ id: "m", pools: [pool] }] });
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["worker-2", "worker-1-1"]);
  });

  test("a reload keeps members with their counters, gives them new settings, and lets those of a removed name leave", async () => {
    const { refresh, router, fleet } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    const worker = fleet.worker("pod-1")!;
    const lease = acquire(worker, 1, 0);
    const secrets = { workerKeys: new Map(), clientKeys: [] };
    const heavier = parseConfig(JSON.stringify(dnsConfig({ weight: 9 })));
    router.control.reload(heavier, secrets);
    expect(names(router)).toEqual(["pod-1", "pod-2"]);
    expect([fleet.worker("pod-1") === worker, worker.weight, worker.load.requests]).toEqual([true, 9, 1]);
    const pool = { name: "default", engine: "vllm", workers: ["http://fixed:1"] };
    router.control.reload(parseConfig(JSON.stringify({ models: [{ id: "m", pools: [pool] }] })), secrets);
    expect(names(router)).toEqual(["pod-1", "worker-1"]);
    expect(worker.draining).toBe(true);
    lease.release();
    expect(await refresh(["10.0.0.1"])).toEqual(["worker-1"]);
  });

  test("an entry that a reload calls otherwise keeps its members, also while they are busy", async () => {
    const { refresh, router, fleet } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    const lease = acquire(fleet.worker("pod-1")!, 1, 0);
    const renamed = parseConfig(JSON.stringify(dnsConfig({ name: "other" })));
    router.control.reload(renamed, { workerKeys: new Map(), clientKeys: [] });
    expect(await refresh(["10.0.0.1", "10.0.0.2", "10.0.0.3"])).toEqual(["pod-1", "pod-2", "other-1"]);
    expect(fleet.worker("pod-1")!.draining).toBe(false);
    lease.release();
  });

  test.each([["idle"], ["busy"], ["leaving"]])(
    "an address that a reload configures by itself, with the name it has, serves on as the configured worker (%s)",
    async (state) => {
      const { refresh, reload, chosen, router, fleet } = start(
        poolOf({ url: "dns+http://engines.local:8000", name: "worker" }),
      );
      await refresh(["10.0.0.1", "10.0.0.2"]);
      const worker = fleet.worker("worker-1")!;
      const lease = state === "idle" ? undefined : acquire(worker, 1, 0);
      if (state === "leaving") await refresh(["10.0.0.2"]);
      reload(poolOf({ url: "http://10.0.0.1:8000", weight: 9 }, "http://10.0.0.2:8000"));
      expect([names(router), chosen()]).toEqual([
        ["worker-1", "worker-2"],
        ["worker-1", "worker-2"],
      ]);
      expect([fleet.worker("worker-1"), worker.weight, worker.origin]).toEqual([worker, 9, "config"]);
      expect(worker.load.requests).toBe(state === "idle" ? 0 : 1);
      lease?.release();
      await refresh(["10.0.0.9"]);
      expect(chosen()).toEqual(["worker-1", "worker-2"]);
    },
  );

  test.each([["pod-1"], ["pinned"]])(
    "a member's address that is configured by itself beside the name is the configured worker (%s) and stays without the DNS",
    async (name) => {
      const entry = { url: "dns+http://engines.local:8000", name: "pod" };
      const { refresh, reload, chosen, fleet } = start(poolOf(entry));
      await refresh(["10.0.0.1", "10.0.0.2"]);
      reload(poolOf(entry, { url: "http://10.0.0.1:8000", name, weight: 9 }));
      await refresh(["10.0.0.1", "10.0.0.2"]);
      expect(fleet.worker(name)).toMatchObject({ url: "http://10.0.0.1:8000", weight: 9, origin: "config" });
      await refresh(["10.0.0.2"]);
      expect(chosen().sort()).toEqual([name, "pod-2"].sort());
      // And back: the address is the DNS's again.
      await refresh(["10.0.0.1", "10.0.0.2"]);
      reload(poolOf(entry));
      await refresh(["10.0.0.1", "10.0.0.2"]);
      expect(fleet.worker("pod-1")).toMatchObject({ weight: 1, origin: "dns" });
    },
  );

  test("an address that is configured by itself while it leaves serves under its new name, unless somebody has drained it by hand", async () => {
    const entry = { url: "dns+http://engines.local:8000", name: "pod" };
    const { refresh, reload, router, chosen, fleet } = start(poolOf(entry));
    await refresh(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    await call(router, "POST", "/workers/pod-2/drain");
    const leases = ["pod-1", "pod-2"].map((name) => acquire(fleet.worker(name)!, 1, 0));
    await refresh(["10.0.0.3"]);
    const fixed = ["1", "2"].map((n) => ({ url: `http://10.0.0.${n}:8000`, name: `fixed-${n}` }));
    reload(poolOf(entry, ...fixed));
    expect(chosen()).toEqual(["pod-3", "fixed-1"]);
    expect(fleet.worker("fixed-2")!.draining).toBe(true);
    for (const lease of leases) lease.release();
    await refresh(["10.0.0.3"]);
    expect(names(router)).toEqual(["pod-3", "fixed-1", "fixed-2"]);
  });

  test.each([["another host"], ["out, and in again"]])(
    "an entry that a reload changes (%s) takes its busy members over as they are, with its own settings",
    async (how) => {
      const { refresh, reload, router, chosen, fleet } = start(
        poolOf({ url: "dns+http://old.local:8000", name: "pod" }),
      );
      await refresh(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
      await call(router, "POST", "/workers/pod-2/drain");
      const before = ["pod-1", "pod-2"].map((name) => fleet.worker(name)!);
      const leases = before.map((worker) => acquire(worker, 1, 0));
      if (how !== "another host") reload(poolOf("http://10.9.9.9:1"));
      const host = how === "another host" ? "new" : "old";
      reload(poolOf({ url: `dns+http://${host}.local:8000`, name: "other", weight: 9 }));
      await refresh(["10.0.0.1", "10.0.0.2"]);
      expect(["pod-1", "pod-2"].map((name) => fleet.worker(name)!)).toEqual(before);
      expect(before.map(({ draining, weight, load }) => [draining, weight, load.requests])).toEqual([
        [false, 9, 1],
        [true, 9, 1],
      ]);
      for (const lease of leases) lease.release();
      await refresh(["10.0.0.1", "10.0.0.2"]);
      expect([chosen(), fleet.workers().length]).toEqual([["pod-1"], 2]);
      // From here on they are the new entry's.
      expect(await refresh(["10.0.0.1"])).toEqual(["pod-1"]);
    },
  );

  test("an address that one name lets go of while another one lists it is the same worker, also while it is busy", async () => {
    const clock = new ManualClock();
    const lists: Record<string, string[]> = { "a.local": ["10.0.0.1"], "b.local": ["10.0.0.1", "10.0.0.2"] };
    const config = poolOf(
      { url: "dns+http://a.local:1", name: "a" },
      { url: "dns+http://b.local:1", name: "b", weight: 5 },
    );
    const resolveHost = async (host: string) => lists[host]!;
    const { router } = routerOver(new EngineHouse(), config, { clock, resolveHost });
    const refresh = async () => {
      await clock.advance(REFRESH_MS);
      await tend(router);
    };
    await refresh();
    const worker = router.services.fleet.worker("a-1")!;
    const lease = acquire(worker, 1, 0);
    lists["a.local"] = ["10.0.0.3"];
    await refresh();
    expect([worker.draining, worker.weight]).toEqual([false, 5]);
    lists["a.local"] = ["10.0.0.1"];
    await refresh();
    expect(names(router)).toEqual(["a-1", "b-1"]);
    lists["b.local"] = ["10.0.0.2"];
    await refresh();
    expect([worker.draining, worker.weight]).toEqual([false, 1]);
    lease.release();
    await refresh();
    expect(names(router)).toEqual(["a-1", "b-1"]);
  });

  test("an entry that a reload gives another role serves in it at once, and what is drained stays drained", async () => {
    const entry = { url: "dns+http://engines.local:1", name: "pod" };
    const pool = (lists: object) => ({ models: [{ id: "m", pools: [{ name: "p", engine: "vllm", ...lists }] }] });
    const { refresh, reload, router, fleet } = start(pool({ workers: [entry] }));
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "POST", "/workers/pod-2/drain");
    const leases = ["pod-1", "pod-2"].map((name) => acquire(fleet.worker(name)!, 1, 0));
    reload(pool({ decode: [entry], prefill: ["http://fixed:1"] }));
    await refresh(["10.0.0.1", "10.0.0.2"]);
    const decode = fleet.model("m")!.pools[0]!.decode;
    expect(decode.map(({ url, draining }) => [url, draining])).toEqual([
      ["http://10.0.0.1:1", false],
      ["http://10.0.0.2:1", true],
    ]);
    for (const lease of leases) lease.release();
    expect((await refresh(["10.0.0.1", "10.0.0.2"])).length).toBe(3);
  });

  test("one that is configured by itself too stays out when it is taken out by hand, until its address has left the DNS or a reload wants it", async () => {
    const entry = { url: "dns+http://engines.local:1", name: "pod" };
    const config = poolOf(entry, { url: "http://10.0.0.1:1", name: "pinned" });
    const { refresh, settled, reload, router } = start({ ...config, auth: { adminKeyEnv: "ADMIN" } });
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "DELETE", "/workers/pinned");
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1"]);
    await settled(["10.0.0.2"]);
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1", "pod-2"]);
    reload(config);
    expect(names(router)).toEqual(["pod-1", "pinned"]);
    router.control.remove("pinned");
    reload(config);
    reload(poolOf(entry));
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1", "pod-2"]);
  });

  test("one that was taken out by hand comes back by no name of its pool, whatever its role, as long as one lists it", async () => {
    const clock = new ManualClock();
    const lists: Record<string, string[]> = {
      "a.local": ["10.0.0.1"],
      "b.local": ["10.0.0.1"],
      "c.local": ["10.0.0.2"],
    };
    const named = (host: string) => ({ url: `dns+http://${host}.local:1`, name: host });
    const pool = { engine: "vllm", prefill: [named("a")], decode: [named("b")], workers: [named("c")] };
    const resolveHost = async (host: string) => lists[host]!;
    const config = { models: [{ id: "m", pools: [pool] }] };
    const { router } = routerOver(new EngineHouse(), config, { clock, resolveHost });
    const refresh = async () => {
      await clock.advance(REFRESH_MS);
      await tend(router);
      return names(router).sort();
    };
    expect(await refresh()).toEqual(["a-1", "c-1"]);
    await call(router, "DELETE", "/workers/a-1");
    expect(await refresh()).toEqual(["c-1"]);
    lists["a.local"] = ["10.0.0.3"];
    expect(await refresh()).toEqual(["a-1", "c-1"]);
    lists["b.local"] = ["10.0.0.4"];
    for (let n = 0; n < GONE_AFTER; n++) await refresh();
    lists["b.local"] = ["10.0.0.1", "10.0.0.4"];
    expect(await refresh()).toEqual(["a-1", "b-1", "b-2", "c-1"]);
  });

  test("one that was taken out by hand stays out when a reload gives the entry another host name", async () => {
    const { refresh, settled, reload, router } = start(poolOf({ url: "dns+http://old.local:1", name: "pod" }));
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "DELETE", "/workers/pod-2");
    reload(poolOf({ url: "dns+http://new.local:1", name: "pod" }));
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1"]);
    await settled(["10.0.0.1"]);
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1", "pod-2"]);
  });

  test("one that was taken out by hand is forgotten when its address was missing from three answers in a row, not before", async () => {
    const { refresh, router } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "DELETE", "/workers/pod-2");
    await refresh(["10.0.0.1"]);
    await refresh(["10.0.0.1"]);
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1"]);
    await refresh(["10.0.0.1"]);
    await refresh(new Error("SERVFAIL"));
    await refresh(["10.0.0.1"]);
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1"]);
    for (let n = 0; n < GONE_AFTER; n++) await refresh(["10.0.0.1"]);
    expect(await refresh(["10.0.0.1", "10.0.0.2"])).toEqual(["pod-1", "pod-2"]);
  });

  test("a shared drain and a shared delete outlive an answer that lacks the address, at the router that got it too", async () => {
    const world = new World();
    const store = memoryOn(world.clock);
    const pods = { name: "p", engine: "vllm", workers: [entry("a")] };
    const config = {
      ...poolOf(),
      auth: { adminKeyEnv: "ADMIN" },
      models: [{ id: "m", pools: [pods] }],
      regions: undefined,
    };
    const everybody = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let there = everybody;
    const one = world.router(config, { store, resolveHost: async () => everybody });
    const other = world.router(config, { store, resolveHost: async () => there });
    const both = [one, other];
    await pass(world, both, 6_000);
    const at = (router: PrefillRouter, url: string) =>
      router.services.fleet.workers().find((worker) => worker.url === url);
    one.control.drain(at(one, "http://10.0.0.1:1")!.name);
    one.control.remove(at(one, "http://10.0.0.2:1")!.name);
    await pass(world, both, 12_000);
    there = ["10.0.0.3"];
    await pass(world, both, 10_400);
    there = everybody;
    await pass(world, both, 12_000);
    expect(at(other, "http://10.0.0.1:1")!.draining).toBe(true);
    expect(both.map((router) => at(router, "http://10.0.0.2:1"))).toEqual([undefined, undefined]);
    // The order stands, so whoever asks for it again gets an answer.
    expect(one.control.drain(at(one, "http://10.0.0.1:1")!.name).drained).toBe(true);
  });

  test("one that was taken out by hand does not come back by a name that begins to list it while another one does", async () => {
    const lists = { "a.local": ["10.0.0.1", "10.0.0.2"], "b.local": ["10.0.0.9"] };
    const { router, refresh, at } = startNamed(poolOf(entry("a"), entry("b")), lists);
    await refresh();
    await call(router, "DELETE", `/workers/${at("http://10.0.0.1:1").name}`);
    await refresh(4);
    lists["b.local"] = ["10.0.0.1", "10.0.0.9"];
    expect(await refresh(2)).toEqual(["http://10.0.0.2:1", "http://10.0.0.9:1"]);
    // Only when both have let go of it.
    lists["a.local"] = ["10.0.0.2"];
    await refresh(GONE_AFTER);
    lists["a.local"] = ["10.0.0.1", "10.0.0.2"];
    expect(await refresh()).toEqual(["http://10.0.0.2:1", "http://10.0.0.9:1"]);
    Object.assign(lists, { "a.local": ["10.0.0.2"], "b.local": ["10.0.0.9"] });
    await refresh(GONE_AFTER);
    lists["b.local"] = ["10.0.0.1", "10.0.0.9"];
    expect(await refresh()).toEqual(["http://10.0.0.2:1", "http://10.0.0.9:1", "http://10.0.0.1:1"]);
  });

  test("one that was taken out by hand does not come back by an entry that a reload adds, until the reload configures it by itself", async () => {
    const lists = { "a.local": ["10.0.0.1", "10.0.0.2"], "b.local": ["10.0.0.1"] };
    const { router, refresh, reload, at } = startNamed(poolOf(entry("a")), lists);
    await refresh();
    await call(router, "DELETE", `/workers/${at("http://10.0.0.1:1").name}`);
    reload(poolOf(entry("a"), entry("b")));
    expect(await refresh(2)).toEqual(["http://10.0.0.2:1"]);
    reload(poolOf(entry("a"), entry("b"), "http://10.0.0.1:1"));
    reload(poolOf(entry("a"), entry("b")));
    expect(await refresh()).toEqual(["http://10.0.0.2:1", "http://10.0.0.1:1"]);
  });

  test("an address that a reload configures by itself no longer serves on at once, as the DNS lists it, also while lookups fail", async () => {
    const lists: Record<string, string[] | Error> = { "a.local": ["10.0.0.1"] };
    const { refresh, reload, chosen, at, router } = startNamed(poolOf(entry("a")), lists);
    await refresh();
    reload(poolOf(entry("a"), { url: "http://10.0.0.1:1", name: "a-1" }));
    await refresh();
    expect(at("http://10.0.0.1:1").origin).toBe("config");
    lists["a.local"] = new Error("SERVFAIL");
    reload(poolOf(entry("a")));
    expect([chosen(), at("http://10.0.0.1:1").origin]).toEqual([["http://10.0.0.1:1"], "dns"]);
    await refresh(6);
    expect(chosen()).toEqual(["http://10.0.0.1:1"]);
    // Not who was taken out by hand.
    router.control.remove("a-1");
    reload(poolOf(entry("a"), "http://10.0.0.2:1"));
    expect(chosen()).toEqual(["http://10.0.0.2:1"]);
  });

  test("one that is drained by hand stays drained when a reload gives its name to another worker", async () => {
    const lists = { "a.local": ["10.0.0.1", "10.0.0.2"] };
    const { router, refresh, reload, chosen, at } = startNamed(poolOf(entry("a")), lists);
    await refresh();
    router.control.drain(at("http://10.0.0.1:1").name);
    reload(poolOf(entry("a"), { url: "http://10.0.0.9:1", name: at("http://10.0.0.1:1").name }));
    await refresh();
    expect([chosen().sort(), at("http://10.0.0.1:1").draining]).toEqual([
      ["http://10.0.0.2:1", "http://10.0.0.9:1"],
      true,
    ]);
  });

  test("one that is configured by itself and drained by hand stays drained when a reload leaves its address to the DNS", async () => {
    const lists: Record<string, string[]> = { "a.local": ["10.0.0.1", "10.0.0.2"], "b.local": ["10.0.0.5"] };
    const configured = ["10.0.0.1", "10.0.0.5"].map((address, n) => ({ url: `http://${address}:1`, name: `z${n}` }));
    const { router, refresh, reload, chosen, at } = startNamed(poolOf(entry("a"), ...configured), lists);
    await refresh();
    router.control.drain("z0");
    router.control.drain("z1");
    await refresh(GONE_AFTER + 1);
    // One that the DNS lists already, and one that an entry lists which is new.
    reload(poolOf(entry("a"), entry("b")));
    await refresh();
    expect([chosen(), at("http://10.0.0.5:1").draining]).toEqual([["http://10.0.0.2:1"], true]);
    // Until somebody brings it back.
    router.control.remove(at("http://10.0.0.1:1").name);
    reload(poolOf(entry("a"), entry("b"), configured[0]));
    expect(chosen().sort()).toEqual(["http://10.0.0.1:1", "http://10.0.0.2:1"]);
    reload(poolOf(entry("a"), entry("b")));
    expect(chosen().sort()).toEqual(["http://10.0.0.1:1", "http://10.0.0.2:1"]);
  });

  test("a drain by hand outlives an answer that lacks the address, and is void once the address is gone", async () => {
    const { refresh, settled, router, chosen, fleet } = start();
    await refresh(["10.0.0.1", "10.0.0.2"]);
    await call(router, "POST", "/workers/pod-1/drain");
    // Idle, so another object stands for it afterwards.
    expect(await refresh(["10.0.0.2"])).toEqual(["pod-2"]);
    await refresh(["10.0.0.1", "10.0.0.2"]);
    expect([fleet.worker("pod-1")!.draining, chosen()]).toEqual([true, ["pod-2"]]);
    await settled(["10.0.0.2"]);
    await refresh(["10.0.0.1", "10.0.0.2"]);
    expect(chosen().sort()).toEqual(["pod-1", "pod-2"]);
  });

  test.each([["idle"], ["busy"]])(
    "an entry that a reload gives another host name serves on until that is answered, and keeps the workers it lists (%s)",
    async (state) => {
      const lists: Record<string, string[] | Error> = {
        "a.local": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
        "b.local": ["10.0.0.1", "10.0.0.2", "10.0.0.4"],
      };
      const { refresh, reload, chosen, at, clock, fleet, router } = startNamed(poolOf(entry("a")), lists);
      await refresh();
      const workers = [...fleet.workers()];
      const leases = state === "busy" ? workers.map((worker) => acquire(worker, 1, 0)) : [];
      const broken = at("http://10.0.0.2:1");
      for (let n = 0; n < 9; n++) broken.breaker.failed(clock.now());
      reload(poolOf(entry("b", { weight: 7 })));
      expect(chosen()).toEqual(["http://10.0.0.1:1", "http://10.0.0.3:1"]);
      expect(fleet.ready(clock.now())[0]!.ready).toBe(true);
      await tend(router);
      expect(chosen()).toEqual(["http://10.0.0.1:1", "http://10.0.0.4:1"]);
      expect(workers.map((worker) => [at(worker.url) === worker, worker.draining, worker.weight])).toEqual([
        [true, false, 7],
        [true, false, 7],
        [state === "busy", true, 1],
      ]);
      expect(broken.breaker.state(clock.now())).toBe("open");
      for (const lease of leases) lease.release();
      // From here on they are the new entry's.
      lists["b.local"] = ["10.0.0.4"];
      await refresh();
      expect(await refresh()).toEqual(["http://10.0.0.4:1"]);
    },
  );

  test("the workers of a host name that a reload changes stay while the new one cannot be looked up, and are back with the old one", async () => {
    const lists: Record<string, string[] | Error> = { "a.local": ["10.0.0.1"], "b.local": new Error("SERVFAIL") };
    const { router, refresh, reload, chosen, at } = startNamed(poolOf(entry("a")), lists);
    await refresh();
    const worker = at("http://10.0.0.1:1");
    reload(poolOf(entry("b")));
    await refresh(20);
    // Another one that fails too.
    reload(poolOf(entry("c")));
    await refresh(20);
    expect(chosen()).toEqual(["http://10.0.0.1:1"]);
    expect(at("http://10.0.0.1:1")).toBe(worker);
    lists["a.local"] = new Error("SERVFAIL");
    reload(poolOf(entry("a", { weight: 4 })));
    expect([chosen(), worker.weight]).toEqual([["http://10.0.0.1:1"], 4]);
    await refresh(20);
    reload(poolOf(entry("c")));
    // What is said of it by hand holds meanwhile.
    router.control.remove(worker.name);
    lists["c.local"] = ["10.0.0.1", "10.0.0.2"];
    await refresh();
    expect(chosen()).toEqual(["http://10.0.0.2:1"]);
  });

  test("the workers of a host name that a reload changes serve on where their name is given to another one", async () => {
    const lists: Record<string, string[] | Error> = { "a.local": ["10.0.0.1"], "b.local": new Error("SERVFAIL") };
    const { refresh, reload, chosen, at } = startNamed(poolOf(entry("a")), lists);
    await refresh();
    const taken = { url: "http://10.0.0.9:1", name: at("http://10.0.0.1:1").name };
    reload(poolOf(entry("b"), taken));
    await refresh(8);
    expect(chosen().sort()).toEqual(["http://10.0.0.1:1", "http://10.0.0.9:1"]);
    lists["b.local"] = ["10.0.0.2"];
    await refresh();
    expect((await refresh()).sort()).toEqual(["http://10.0.0.2:1", "http://10.0.0.9:1"]);
  });

  test("one that was taken out by hand stays out where a reload moves its entry and another one has let go of it meanwhile", async () => {
    const lists: Record<string, string[] | Error> = { "a.local": ["10.0.0.1"], "b.local": ["10.0.0.1", "10.0.0.2"] };
    const pools = (decode: object[], workers: object[]) => ({
      models: [{ id: "m", pools: [{ engine: "vllm", prefill: ["http://p:1"], decode, workers }] }],
    });
    const { router, refresh, reload, at } = startNamed(pools([entry("b")], [entry("a")]), lists);
    await refresh();
    router.control.remove(at("http://10.0.0.1:1").name);
    Object.assign(lists, { "a.local": new Error("SERVFAIL"), "b.local": ["10.0.0.2"] });
    await refresh(2);
    reload(pools([entry("b"), entry("a")], []));
    await refresh(GONE_AFTER);
    lists["a.local"] = ["10.0.0.1"];
    expect((await refresh()).sort()).toEqual(["http://10.0.0.2:1", "http://p:1"]);
  });

  test("where a reload adds several names in the place of one, its workers leave when all are answered, or one is and 30 s are over", async () => {
    const lists: Record<string, string[] | Error> = {
      "a.local": ["10.0.0.1", "10.0.0.2"],
      "b.local": ["10.0.0.1"],
      "c.local": new Error("ENOTFOUND"),
    };
    const changed = poolOf(entry("b"), entry("c"));
    const first = startNamed(poolOf(entry("a")), lists);
    await first.refresh();
    first.reload(changed);
    expect(await first.refresh(5)).toEqual(["http://10.0.0.1:1", "http://10.0.0.2:1"]);
    expect(first.chosen().length).toBe(2);
    expect(await first.refresh()).toEqual(["http://10.0.0.1:1"]);

    const second = startNamed(poolOf(entry("a")), lists);
    await second.refresh();
    const worker = second.at("http://10.0.0.2:1");
    second.reload(changed);
    await second.refresh(2);
    lists["c.local"] = ["10.0.0.2"];
    await second.refresh();
    expect([second.chosen(), second.at("http://10.0.0.2:1")]).toEqual([
      ["http://10.0.0.1:1", "http://10.0.0.2:1"],
      worker,
    ]);
  });

  test("where nothing can look names up, the configuration is refused and names the field", () => {
    let refusal: unknown;
    try {
      createRouter({ config: dnsConfig(), transport: new EngineHouse().transport });
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(ConfigError);
    expect((refusal as ConfigError).issues.map(({ path }) => path)).toEqual(["models[0].pools[0].workers[0].url"]);
  });
});
