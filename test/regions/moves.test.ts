import { expect, test } from "bun:test";
import { PoolChoice } from "../../src/regions/choose-pools.ts";
import { choose } from "../../src/workers/choose.ts";
import type { Fleet } from "../../src/workers/fleet.ts";
import { fleetConfig, makeFleet, makeInput, poolConfig, seeded, workerConfig } from "../workers/fixtures.ts";

const SESSIONS = 4_000;

/** Regions at about the same distance from each other's clients: what moves then moves for the fleet's sake alone. */
const REGIONS = Array.from({ length: 8 }, (_, n) => ({
  name: `r${n}`,
  latitude: 50 + (n % 3) * 0.4,
  longitude: 8 + Math.floor(n / 3) * 0.4,
}));

function pool(region: string, workers: number) {
  const list = (role: string) => Array.from({ length: workers }, (_, n) => workerConfig(`${role}${n}-${region}`));
  return poolConfig(region, { region, prefill: list("p"), decode: list("d") });
}

/** A router at one point of presence, which knows nothing of any other. */
function pointOfPresence(pools: { region: string; workers: number }[], seed: number) {
  const config = fleetConfig({
    models: [{ id: "m", aliases: [], adapters: [], pools: pools.map(({ region, workers }) => pool(region, workers)) }],
    policy: { prefill: "consistent-hash", decode: "consistent-hash" },
  });
  const fleet: Fleet = makeFleet(config, { random: seeded(seed) });
  const choice = new PoolChoice({ regions: REGIONS, location: { region: "r4" } }, fleet);
  return { fleet, choice };
}

/** Where each session goes: pool and worker. Nothing is in hand, so nothing but the sessions themselves decides. */
function homes({ fleet, choice }: ReturnType<typeof pointOfPresence>, now = 0): string[] {
  const model = fleet.model("m")!;
  return Array.from({ length: SESSIONS }, (_, n) => {
    const input = makeInput("", `session-${n}`);
    const first = choice.order(model, undefined, input, now)[0]!;
    const lease = choose(first, "prefill", input, { now })!;
    lease.release();
    return `${first.name} ${lease.worker.name}`;
  });
}

function moved(before: readonly string[], after: readonly string[]): number {
  return before.filter((home, n) => after[n] !== home).length / before.length;
}

const eight = REGIONS.map(({ name }) => ({ region: name, workers: 10 }));

test("points of presence that share nothing agree on pool and worker of every session", () => {
  const first = homes(pointOfPresence(eight, 1));
  expect(homes(pointOfPresence([...eight].reverse(), 2))).toEqual(first);
  expect(new Set(first).size).toBe(80);
});

test("a region that leaves takes its own sessions along, 1/N of all, and no other moves; when it is back so are they", () => {
  const all = pointOfPresence(eight, 1);
  const before = homes(all);
  const after = homes(pointOfPresence(eight.slice(1), 1));
  for (const [n, home] of before.entries()) if (!home.startsWith("r0 ")) expect(after[n]).toBe(home);
  const rate = moved(before, after);
  console.log(`sessions moved when one of 8 regions leaves: ${(rate * 100).toFixed(1)} % (1/N = 12.5 %)`);
  expect(rate).toBeLessThan(1 / 8 + 0.02);

  for (const worker of all.fleet.workers()) if (worker.pool === "r0") worker.draining = true;
  expect(homes(all, 1_000)).toEqual(after);
  for (const worker of all.fleet.workers()) worker.draining = false;
  expect(homes(all, 100_000)).not.toEqual(before);
  expect(homes(all, 200_000)).toEqual(before);
});

test("a worker that leaves moves its own sessions, and its region's share of sessions changes by a little", () => {
  const before = homes(pointOfPresence(eight, 1));
  const fewer = pointOfPresence(eight, 1);
  fewer.fleet.remove("p3-r0");
  const rate = moved(before, homes(fewer));
  console.log(`sessions moved when one of 80 prefill workers leaves: ${(rate * 100).toFixed(2)} % (1/N = 1.25 %)`);
  expect(rate).toBeLessThan(1 / 80 + 0.01);
  expect(rate).toBeGreaterThan(0.005);
});

test("a new region gets 1/N of the sessions, from all others alike", () => {
  const before = homes(pointOfPresence(eight.slice(1), 1));
  const after = homes(pointOfPresence(eight, 1));
  for (const [n, home] of after.entries()) if (home !== before[n]) expect(home).toStartWith("r0 ");
  expect(moved(before, after)).toBeWithin(1 / 8 - 0.03, 1 / 8 + 0.02);
});
