import { expect, test } from "bun:test";
import { emptyState, newestFirst, take } from "../../src/dashboard/client/state.ts";
import type { Update } from "../../src/dashboard/update.ts";
import { NOW, row } from "./hand-made.ts";

function update(changes: Partial<Update> = {}): Update {
  return { now: NOW, inProgress: 0, queued: 0, shuttingDown: false, running: [], ...changes };
}

test("what an event leaves out stays as it was", () => {
  const state = emptyState();
  take(state, update({ requests: [row()], changes: [{ at: 1, worker: "d1", what: "unhealthy" }] }), NOW);
  take(state, update({ inProgress: 4 }), NOW + 500);
  expect(state.requests.size).toBe(1);
  expect(state.changes).toHaveLength(1);
  expect(state).toMatchObject({ inProgress: 4, heardAt: NOW + 500 });
});

test("a running request of which nothing more is heard does not run for ever", () => {
  const state = emptyState();
  const running = row({ key: 7, finished: undefined });
  take(state, update({ requests: [running], running: [7] }), NOW);
  expect(state.requests.size).toBe(1);
  take(state, update(), NOW);
  expect(state.requests.size).toBe(0);
});

test("a new connection begins anew: after a restart the router counts its keys from one again", () => {
  const state = emptyState();
  const router = { version: "1", startedAt: 1, keyed: false };
  take(state, update({ router, requests: [row({ key: 1 }), row({ key: 2 })] }), NOW);
  take(state, update({ router, requests: [row({ key: 1, id: "other" })] }), NOW);
  expect(newestFirst(state).map(({ id }) => id)).toEqual(["other"]);
});

test("memory is bounded, and failed requests stay longer than good ones", () => {
  const state = emptyState();
  take(state, update({ requests: [row({ key: 0, at: 0, failed: "decode" })] }), NOW);
  for (let i = 1; i <= 2_000; i++) take(state, update({ requests: [row({ key: i, at: i })] }), NOW);
  expect(state.requests.size).toBeLessThanOrEqual(400);
  expect(newestFirst(state).at(-1)!.key).toBe(0);
});

test("the router's clock counts, not the viewer's", () => {
  const state = emptyState();
  take(state, update({ now: NOW }), NOW - 90_000);
  expect(state.clockOffset).toBe(90_000);
});
