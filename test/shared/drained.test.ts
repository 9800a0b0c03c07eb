import { expect, test } from "bun:test";
import type { PrefillRouter } from "../../src/create-router.ts";
import { acquire } from "../../src/workers/lease.ts";
import { call } from "../fleet/house.ts";
import { World } from "../regions/world.ts";
import { Link, memoryOn } from "./links.ts";
import { pass } from "./pass.ts";

const NAME = "d1-eu-west";

/** Two routers; `drained` is what the first answers to the order to drain. */
function pair() {
  const world = new World();
  const store = memoryOn(world.clock);
  const links = [new Link(store, world.clock), new Link(store, world.clock)] as const;
  const [here, there] = [world.router({}, { store: links[0] }), world.router({}, { store: links[1] })] as const;
  const drained = () => here.control.drain(NAME).drained;
  const worker = (router: PrefillRouter) => router.services.fleet.worker(NAME)!;
  return { world, store, links, here, there, all: [here, there] as const, drained, worker };
}

/** Seconds until the router says so, at most thirty. */
async function secondsUntil(world: World, all: readonly PrefillRouter[], met: () => boolean): Promise<number> {
  for (let tenths = 0; tenths < 300; tenths++) {
    if (met()) return tenths / 10;
    await pass(world, all, 100);
  }
  return Number.POSITIVE_INFINITY;
}

test("a worker is not drained while another router has something in hand there; when that is over, it is", async () => {
  const { world, here, there, all, drained, worker } = pair();
  await pass(world, all, 1_000);
  const leases = Array.from({ length: 25 }, () => acquire(worker(there), 100, world.clock.now()));
  await pass(world, all, 3_000);
  const answer = await call(here, "POST", `/workers/${NAME}/drain`);
  expect(answer.json).toMatchObject({ draining: true, drained: false, in_flight: 0 });
  for (let second = 0; second < 30; second++) {
    await pass(world, all, 1_000);
    expect(drained()).toBeFalse();
  }
  for (const lease of leases) lease.release();
  expect(await secondsUntil(world, all, drained)).toBeLessThan(4);
});

test("with a store an idle worker is drained as soon as all others have had the time to say so, however often it is asked", async () => {
  const { world, links, all, drained } = pair();
  await pass(world, all, 1_000);
  expect(drained()).toBeFalse();
  expect(await secondsUntil(world, all, drained)).toBeWithin(5, 11);
  // Asking is no new order.
  const written = links[0].writes.length;
  for (let second = 0; second < 20; second++) {
    await pass(world, all, 1_000);
    expect(drained()).toBeTrue();
  }
  expect(links[0].writes.length).toBe(written);
});

test("a request that another router gives the worker before it learns of the drain is waited for", async () => {
  for (let early = 0; early < 1_800; early += 200) {
    const { world, store, here, drained, worker } = pair();
    const last = {
      exchange: async (...asked: Parameters<typeof store.exchange>) => {
        // Its report is on the way and tells of nothing; the answer will tell of the drain.
        if (!worker(there).draining) worker(there).load.requests = 1;
        return store.exchange(...asked);
      },
    };
    const there = world.router({}, { store: last });
    const all = [here, there];
    await pass(world, all, 2_000 + early);
    for (let tenths = 0; tenths < 200; tenths++) {
      if (!worker(there).draining) worker(there).load.requests = 0;
      await pass(world, all, 100);
      if (drained()) break;
    }
    expect([worker(there).load.requests, drained()]).toEqual([1, false]);
    worker(there).load.requests = 0;
    expect(await secondsUntil(world, all, drained)).toBeLessThan(4);
  }
});

test("what a router that is gone had in hand counts for ten seconds", async () => {
  const { world, here, there, all, drained, worker } = pair();
  await pass(world, all, 1_000);
  acquire(worker(there), 100, world.clock.now());
  await pass(world, all, 2_000);
  drained();
  await pass(world, all, 8_000);
  expect(drained()).toBeFalse();
  expect(await secondsUntil(world, [here], drained)).toBeWithin(8, 11);
});

test("while the store is not reached no worker is drained, nor until all have said again what they have", async () => {
  const { world, links, there, all, drained, worker } = pair();
  await pass(world, all, 1_000);
  const lease = acquire(worker(there), 100, world.clock.now());
  drained();
  await pass(world, all, 9_000);
  for (const link of links) link.state = "refused";
  for (let second = 0; second < 25; second++) {
    await pass(world, all, 1_000);
    expect(drained()).toBeFalse();
  }
  for (const link of links) link.state = "up";
  for (let second = 0; second < 25; second++) {
    await pass(world, all, 1_000);
    expect(drained()).toBeFalse();
  }
  lease.release();
  expect(await secondsUntil(world, all, drained)).toBeLessThan(4);
});

test("who is asked about a drain that another router was given answers alike", async () => {
  const { world, here, there, all, worker } = pair();
  await pass(world, all, 1_000);
  const lease = acquire(worker(here), 100, world.clock.now());
  here.control.drain(NAME);
  await pass(world, all, 12_000);
  expect(there.control.drain(NAME).drained).toBeFalse();
  lease.release();
  expect(await secondsUntil(world, all, () => there.control.drain(NAME).drained)).toBeLessThan(4);
});

test("where routers exchange with requests alone nobody knows: drained stays false", async () => {
  const { world, here, all, drained } = pair();
  here.tendsWithRequests = true;
  expect(drained()).toBeFalse();
  expect(await secondsUntil(world, all, drained)).toBe(Number.POSITIVE_INFINITY);
});

test("what another router has in hand at the address counts, also when the worker is no longer one of its own", async () => {
  const { world, there, all, drained, worker } = pair();
  await pass(world, all, 1_000);
  const lease = acquire(worker(there), 1, world.clock.now());
  there.services.fleet.remove(NAME);
  drained();
  await pass(world, all, 15_000);
  expect(drained()).toBeFalse();
  lease.release();
  expect(await secondsUntil(world, all, drained)).toBeLessThan(12);
});
