import { expect, test } from "bun:test";
import { modelCards } from "../../src/dashboard/cards.ts";
import { DashboardFeed, type FeedDeps, RowKeys, TICK_MS } from "../../src/dashboard/feed.ts";
import type { Update } from "../../src/dashboard/update.ts";
import type { FleetControl } from "../../src/fleet/control.ts";
import { FleetChanges } from "../../src/telemetry/changes.ts";
import { Recent } from "../../src/telemetry/recent.ts";
import { EngineHouse, routerOver } from "../fleet/house.ts";
import { ManualClock, streamedRecord } from "../telemetry/hand-made.ts";
import { fleetConfig, makeFleet, workerConfig } from "../workers/fixtures.ts";

const decoder = new TextDecoder();

function stage(changes: Partial<FeedDeps> = {}) {
  const { router } = routerOver(new EngineHouse(), {
    models: [{ id: "m", pools: [{ engine: "openai", workers: [{ url: "http://10.1.2.3:8080", name: "w" }] }] }],
  });
  const clock = new ManualClock();
  clock.time = 1_600;
  const recent = new Recent();
  const fleetChanges = new FleetChanges(() => 5_000);
  const { fleet } = router.services;
  const deps: FeedDeps = {
    telemetry: { recent, changes: fleetChanges },
    fleet,
    control: router.control as Pick<FleetControl, "list">,
    clock,
    wallNow: () => 1_000_000 + clock.time,
    queued: () => 0,
    phase: () => "up",
    trusted: false,
    facts: { version: "1", startedAt: 1, keyed: false },
    keys: new RowKeys(),
    allowed: () => Promise.resolve(true),
    ...changes,
  };
  const feed = new DashboardFeed(deps);
  /** The next event, its tick over. */
  async function next(): Promise<Update | undefined> {
    const pending = feed.next();
    clock.advance(TICK_MS);
    const bytes = await pending;
    if (bytes === undefined) return undefined;
    const event = decoder.decode(bytes);
    expect(event).toMatch(/^data: [^\n]*\n\n$/);
    return JSON.parse(event.slice(6));
  }
  return { feed, clock, recent, fleet, changes: fleetChanges, next };
}

test("the first event tells everything, the next only what has changed", async () => {
  const { recent, next } = stage();
  recent.finish(streamedRecord());
  const first = (await next())!;
  expect(first.router).toEqual({ version: "1", startedAt: 1, keyed: false });
  expect(first.requests).toHaveLength(1);
  expect(first.models).toHaveLength(1);
  expect(first.minutes!.counts.at(-1)).toEqual([1, 0, 0, 0, 0, 0]);
  const second = (await next())!;
  expect(Object.keys(second).sort()).toEqual(["inProgress", "now", "queued", "running", "shuttingDown"]);
});

test("a request is seen while it runs, and once more when it is over", async () => {
  const { recent, next } = stage();
  const record = streamedRecord({ finishedAt: 0, status: 0, outcome: "" });
  recent.add(record);
  const running = (await next())!;
  expect(running.requests![0]!.finished).toBeUndefined();
  expect(running.running).toEqual([running.requests![0]!.key]);
  Object.assign(record, { finishedAt: 1_574, status: 200, outcome: "success", done: true });
  recent.finish(record);
  const over = (await next())!;
  expect(over.requests).toMatchObject([{ key: running.requests![0]!.key, finished: 574, status: 200 }]);
  expect(over.running).toEqual([]);
});

test("a tail that fails after the answer was over comes as a change of its row, as a failure, and in the minutes", async () => {
  const { recent, next } = stage();
  const record = streamedRecord({ prefillDoneAt: 0, openDrains: 1, done: true });
  recent.finish(record);
  expect((await next())!.requests![0]).toMatchObject({ tailOpen: true });
  Object.assign(record, { openDrains: 0, tailEndedAt: 2_000, lateFailure: "reset", lateFailureWhen: "after_end" });
  recent.tailEnded(record);
  const { requests, minutes } = (await next())!;
  expect(requests).toMatchObject([{ failed: "late", late: "reset", tailEnded: 1_000 }]);
  expect(minutes!.counts.at(-1)).toEqual([1, 0, 0, 0, 0, 1]);
});

test("after a retry, times of the attempt before are not shown as this one's", async () => {
  const { recent, next } = stage();
  recent.add(streamedRecord({ prefillSentAt: 1_200, prefillDoneAt: 1_100, decodeSentAt: 1_104, finishedAt: 0 }));
  const [row] = (await next())!.requests!;
  expect(row).toMatchObject({ prefillSent: 200 });
  expect(row!.prefillDone).toBeUndefined();
  expect(row!.decodeSent).toBeUndefined();
});

test("no address and no name of a client leaves without the admin key", async () => {
  const { recent, next } = stage();
  recent.finish(streamedRecord({ clientKey: "team-a" }));
  const text = JSON.stringify(await next());
  expect(text).not.toContain("10.1.2.3");
  expect(text).not.toContain("team-a");
});

test("with the admin key, addresses and clients' names are shown", async () => {
  const { recent, next } = stage({ trusted: true });
  recent.finish(streamedRecord({ clientKey: "team-a" }));
  const text = JSON.stringify(await next());
  expect(text).toContain("http://10.1.2.3:8080");
  expect(text).toContain("team-a");
});

test("a change of a worker reaches the viewer, with since when", async () => {
  const { fleet, changes, next } = stage();
  await next();
  const worker = fleet.worker("w")!;
  for (let i = 0; i < 5; i++) worker.failed(1_600);
  changes.add(worker, "breaker open");
  const update = (await next())!;
  expect(update.changes).toEqual([{ at: 5_000, worker: "w", what: "breaker open" }]);
  expect(update.models![0]!.pools[0]!.workers[0]).toMatchObject({ breaker: "open", usable: false, sickSince: 5_000 });
});

test("a pod that takes the name of one that was sick is sick since its own first failure", async () => {
  let wall = 1_000;
  const changes = new FleetChanges(() => wall);
  const fleet = makeFleet(fleetConfig(), {
    now: () => 0,
    events: { onBreaker: (worker, to) => changes.add(worker, `breaker ${to}`), onHealth: () => {} },
  });
  const fail = (): void => {
    for (let i = 0; i < 3; i++) fleet.worker("d1")!.failed(0);
  };
  const since = () => modelCards(fleet, 0, changes, undefined)[0]!.pools[0]!.workers.find((w) => w.name === "d1")!;
  fail();
  expect(since()).toMatchObject({ breaker: "open", sickSince: 1_000 });
  fleet.remove("d1");
  fleet.add({ model: "m", pool: "default", role: "decode", worker: workerConfig("d1") });
  expect(since().sickSince).toBeUndefined();
  wall = 900_000;
  fail();
  expect(since()).toMatchObject({ breaker: "open", sickSince: 900_000 });
});

test("between two events nothing is done: no timer but one, and none at all when nobody reads", async () => {
  const { feed, clock, next } = stage();
  await next();
  expect(clock.waiting).toBe(0);
  const pending = feed.next();
  expect(clock.waiting).toBe(1);
  feed.leave();
  expect(await pending).toBeUndefined();
  expect(clock.waiting).toBe(0);
});

test("a key that is no longer the right one ends the stream", async () => {
  let allowed = true;
  const { next } = stage({ allowed: () => Promise.resolve(allowed) });
  expect(await next()).toBeDefined();
  allowed = false;
  expect(await next()).toBeUndefined();
});

test("a viewer sees the router go, and does not hold it up", async () => {
  let phase: "up" | "shutting down" | "idle" = "shutting down";
  const { next } = stage({ phase: () => phase });
  expect((await next())!.shuttingDown).toBe(true);
  expect((await next())!.shuttingDown).toBe(true);
  phase = "idle";
  expect(await next()).toBeDefined();
  expect(await next()).toBeUndefined();
});
