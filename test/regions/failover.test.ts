import { describe, expect, test } from "bun:test";
import { AT, ask, askAll, finish, type Told, World } from "./world.ts";

describe("a region that dies in the middle of a burst", () => {
  test("costs its open streams and nothing else, and comes back by and by", async () => {
    const world = new World();
    const router = world.router();
    const region = world.regions.get("eu-west")!;
    const pending: Promise<Told>[] = [];
    let sent = 0;
    const burst = async (rounds: number) => {
      for (let round = 0; round < rounds; round++) {
        for (let n = 0; n < 2; n++)
          pending.push(ask(router, { from: AT.dublin, session: `s${sent}`, content: `Q ${sent++}` }));
        await world.clock.advance(20);
      }
    };
    await burst(40);
    const before = pending.length;
    let open = 0;
    for (const { load, role, pool } of router.services.fleet.workers())
      if (role === "decode" && pool === "eu-west") open += load.requests;
    expect(open).toBeGreaterThan(5);
    region.die();
    await burst(60);
    const answers = await finish(world, pending);
    const broken = answers.filter(({ whole }) => !whole);
    // Streams that had begun end with an error frame; whatever had not begun was answered by another region.
    expect(broken.length).toBeWithin(1, open + 1);
    for (const one of broken) {
      expect([one.status, one.pool]).toEqual([200, "eu-west"]);
      expect(one.body.match(/"error"/g)).toHaveLength(1);
      expect(answers.indexOf(one)).toBeLessThan(before);
    }
    const after = answers.slice(before).map(({ pool }) => pool);
    expect(after).not.toContain("eu-west");
    expect(after.filter((pool) => pool === "eu-central").length).toBeGreaterThan(after.length * 0.9);
    expect(world.load()).toBe(0);

    // Retries spent of the shared budget: no more than were under way, and the few that found out.
    const retries = [...router.telemetry.metrics.render().matchAll(/^prefill_router_retries_total\{.*\} (\d+)$/gm)];
    expect(retries.reduce((sum, [, count]) => sum + Number(count), 0)).toBeLessThan(open + 15);

    region.comeBack();
    const shares: number[] = [];
    for (let step = 0; step < 6; step++) {
      world.clock.time += step === 0 ? 10_000 : 8_000;
      const told = await askAll(
        world,
        router,
        Array.from({ length: 60 }, (_, n) => ({ from: AT.dublin, session: `back ${n}`, content: `Again ${n}` })),
      );
      expect(told.every(({ whole }) => whole)).toBeTrue();
      shares.push(told.filter(({ pool }) => pool === "eu-west").length / told.length);
    }
    // A twentieth at first, then a quarter of it more every eight seconds.
    expect(shares[0]).toBeLessThan(0.2);
    expect(shares.at(-1)).toBeGreaterThan(0.6);
    for (let step = 1; step < shares.length; step++) expect(shares[step]! - shares[step - 1]!).toBeLessThan(0.45);
  });

  test("pools without regions fail over the same way: the second try goes to another pool", async () => {
    const world = new World();
    const router = world.router({ regions: [], geoHeader: undefined, retries: { maxRetries: 1 } });
    world.regions.get("eu-west")!.die();
    world.regions.get("us-east")!.die();
    const told = await askAll(
      world,
      router,
      Array.from({ length: 40 }, (_, n) => ({ session: `s${n}` })),
    );
    expect(told.filter(({ whole }) => whole).length).toBeGreaterThan(25);
    for (const { pool, whole } of told) if (whole) expect(["eu-central", "ap-south"]).toContain(pool!);
    const later = await askAll(
      world,
      router,
      Array.from({ length: 40 }, (_, n) => ({ session: `t${n}` })),
    );
    expect(later.every(({ whole }) => whole)).toBeTrue();
  });

  test("one worker that is gone does not make a region: the others of its pool go on, and the breaker ends it", async () => {
    const world = new World();
    const router = world.router({ policy: { prefill: "round-robin", decode: "round-robin" } });
    world.regions.get("eu-west")!.engines.delete("prefill-1.eu-west");
    const told: Told[] = [];
    for (let n = 0; n < 60; n++) told.push(...(await askAll(world, router, [{ from: AT.dublin, session: `s${n}` }])));
    expect(told.every(({ whole }) => whole)).toBeTrue();
    expect(told.slice(-20).filter(({ pool }) => pool === "eu-west").length).toBeGreaterThan(12);
  });
});
