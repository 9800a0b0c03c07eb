import { describe, expect, test } from "bun:test";
import { AT, ask, askAll, finish, REGIONS, World } from "./world.ts";

const many = (count: number, more: object = {}) =>
  Array.from({ length: count }, (_, n) => ({ session: `s${n}`, content: `Question ${n}`, ...more }));

function tally(told: readonly { pool: string | null }[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { pool } of told) counts[pool ?? "none"] = (counts[pool ?? "none"] ?? 0) + 1;
  return counts;
}

describe("which region a request goes to", () => {
  test("the one near its client, wherever the router is; x-router-pool says which", async () => {
    const world = new World();
    const router = world.router({ location: { region: "us-east" } });
    for (const [from, region] of [
      [AT.mumbai, "ap-south"],
      [AT.washington, "us-east"],
    ] as const) {
      expect(tally(await askAll(world, router, many(20, { from })))).toEqual({ [region]: 20 });
    }
    // Nobody says where the client is: the router's own place counts.
    expect(tally(await askAll(world, router, many(20)))).toEqual({ "us-east": 20 });
    expect(world.load()).toBe(0);
  });

  test("what was measured counts more than the map: a near pool that answers late loses its clients to a far one", async () => {
    const world = new World();
    const router = world.router({ location: { region: "eu-west" } });
    const { places, fleet } = router.services;
    const [west, central, east] = fleet.model("m")!.pools;
    const at = { place: REGIONS[0], allowedRegions: undefined };
    for (let n = 0; n < 50; n++) {
      places.answered(west!, at, 400, n);
      places.answered(central!, at, 60, n);
      places.answered(east!, at, 90, n);
    }
    const counts = tally(await askAll(world, router, many(60)));
    expect(counts["eu-west"]).toBeUndefined();
    expect(counts["eu-central"]).toBeGreaterThan(50);
  });

  test("load spills to the next pool by cost: softly, not all at once, and not to the far end of the world", async () => {
    const world = new World();
    const router = world.router({
      location: { region: "eu-west" },
      policy: { prefill: "least-load", decode: "least-load" },
    });
    const { places, fleet, clock } = router.services;
    const model = fleet.model("m")!;
    const load = (tokens: number) => {
      for (const worker of model.pools[0]!.prefill) Object.assign(worker.load, { tokens, requests: Math.sign(tokens) });
    };
    const shareOf = () => {
      const explained = places.explain(model, { place: undefined, allowedRegions: undefined }, 1_000, clock.now());
      return Object.fromEntries(explained.map(({ pool, share }) => [pool.name, share]));
    };
    expect(shareOf()["eu-west"]).toBeGreaterThan(0.8);
    load(400);
    const shares: number[] = [];
    for (let second = 0; second < 12; second++) {
      world.clock.time += 1_000;
      shares.push(shareOf()["eu-west"]!);
    }
    for (const [index, share] of shares.entries())
      if (index > 0) expect(shares[index - 1]! - share).toBeWithin(-0.001, 0.4);
    expect(shares.at(-1)).toBeLessThan(0.2);
    expect(shareOf()["eu-central"]).toBeGreaterThan(0.7);
    load(0);
    world.clock.time += 60_000;
    expect(shareOf()["eu-west"]).toBeGreaterThan(0.8);
  });

  test("a session keeps its pool and its worker at every router, though they share nothing", async () => {
    const world = new World();
    const config = {
      location: { region: "eu-west" },
      policy: { prefill: "consistent-hash", decode: "consistent-hash" },
    };
    const routers = [world.router(config), world.router(config), world.router(config)];
    const told = [];
    for (const router of routers) told.push(await askAll(world, router, many(40)));
    for (let n = 0; n < 40; n++) {
      expect(new Set(told.map((answers) => `${answers[n]!.pool} ${answers[n]!.prefill}`)).size).toBe(1);
    }
    expect(Object.keys(tally(told[0]!)).sort()).toEqual(["eu-central", "eu-west"]);
  });
});

describe("data residency", () => {
  const auth = {
    clientKeys: [
      { name: "eu", keyEnv: "EU_KEY", allowedRegions: ["eu-west", "eu-central"] },
      { name: "all", keyEnv: "ALL_KEY" },
    ],
  };

  test("no request of a key leaves its regions, wherever its client is and whatever dies", async () => {
    const world = new World();
    const router = world.router({ auth });
    const first = await askAll(world, router, many(30, { key: "eu-key", from: AT.mumbai }));
    expect(first.every(({ whole }) => whole)).toBeTrue();
    world.regions.get("eu-west")!.die();
    const second = await askAll(world, router, many(30, { key: "eu-key", from: AT.dublin }));
    expect(second.every(({ whole, pool }) => whole && pool === "eu-central")).toBeTrue();
    world.regions.get("eu-central")!.die();
    for (const { status, pool } of await askAll(world, router, many(30, { key: "eu-key", from: AT.washington }))) {
      expect([502, 503]).toContain(status);
      expect(["eu-west", "eu-central", null]).toContain(pool);
    }
    expect(new Set(world.asked)).toEqual(new Set(["eu-west", "eu-central"]));
    expect(world.load()).toBe(0);
  });

  test("nobody there can serve: 503 that names the regions; others with other keys are served all the while", async () => {
    const world = new World();
    const router = world.router({ auth });
    for (const worker of router.services.fleet.workers()) if (worker.pool.startsWith("eu-")) worker.draining = true;
    const [refused, served] = await askAll(world, router, [
      { key: "eu-key", from: AT.dublin },
      { key: "all-key", from: AT.dublin },
    ]);
    expect(refused!.status).toBe(503);
    expect(JSON.parse(refused!.body).error).toMatchObject({
      code: "no_prefill_workers",
      message: "No prefill worker in eu-west, eu-central can take the request",
    });
    expect([served!.status, served!.pool]).toEqual([200, "us-east"]);
  });

  test("the model has no pool there at all, or one without a region: 403, and nobody is asked", async () => {
    for (const pools of [["us-east"], ["us-east", "ap-south"]]) {
      const world = new World();
      const nowhere = { ...world.pools(["eu-west"])[0]!, name: "somewhere", region: undefined };
      const router = world.router({ auth, models: [{ id: "m", pools: [...world.pools(pools), nowhere] }] });
      const [refused] = await askAll(world, router, [{ key: "eu-key" }]);
      expect([refused!.status, JSON.parse(refused!.body).error.code]).toEqual([403, "forbidden"]);
      expect(JSON.parse(refused!.body).error.message).toContain("may only be served in eu-west, eu-central");
      expect(world.asked).toEqual([]);
    }
  });

  test("it holds for one pool, without a list of regions, for parts of a request, and for routes that are forwarded", async () => {
    const world = new World();
    const router = world.router({
      auth,
      regions: [],
      geoHeader: undefined,
      models: [
        { id: "m", pools: [{ ...world.pools(["us-east"])[0]!, workers: [{ name: "w", url: "http://w.us-east:1" }] }] },
      ],
    });
    const asks = [
      ask(router, { key: "eu-key" }),
      ask(router, { key: "eu-key", path: "/v1/embeddings" }),
      ask(router, { key: "eu-key", content: "n", stream: false }),
    ];
    for (const { status } of await finish(world, asks)) expect(status).toBe(403);
    const parts = router.fetch(
      new Request("http://router/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer eu-key" },
        body: JSON.stringify({ model: "m", n: 3, messages: [{ role: "user", content: "hi" }] }),
      }),
    );
    expect((await parts).status).toBe(403);
    expect(world.asked).toEqual([]);
  });

  test("every part of a split request stays inside as well", async () => {
    const world = new World();
    const router = world.router({ auth });
    const response = router.fetch(
      new Request("http://router/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer eu-key", "x-client-geo": AT.mumbai },
        body: JSON.stringify({ model: "m", n: 4, messages: [{ role: "user", content: "hi" }] }),
      }),
    );
    for (let round = 0; round < 60; round++) await world.clock.advance(10);
    expect((await response).status).toBe(200);
    expect(world.asked.length).toBe(4);
    expect(world.asked.every((name) => name.startsWith("eu-"))).toBeTrue();
  });
});
