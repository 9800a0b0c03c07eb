import { expect, test } from "bun:test";
import type { PrefillOutput } from "../../src/prefill/output.ts";
import { spawnPrefillTask } from "../../src/prefill/spawn.ts";
import { RequestTracker } from "../../src/prefill/tracker.ts";
import { bootstrap, CountingGuard, data, HandMade, quiet, raw, surroundings } from "./hand-made.ts";

function spawned(...outputs: PrefillOutput[]) {
  const ports = surroundings();
  const tracker = new RequestTracker(ports.clock);
  const permit = tracker.tryEnterPhase("prefill");
  const guard = new CountingGuard();
  const prefill = new HandMade<PrefillOutput>(...outputs);
  const task = spawnPrefillTask(prefill.stream, tracker, permit, { ...ports, guard });
  return { ...ports, tracker, guard, prefill, task };
}

test("the phase permit is released before anything is read, in the same tick", () => {
  const { tracker, task } = spawned();
  expect(tracker.tryEnterPhase("decode")).toBeDefined();
  expect(task.outcome).toBeNull();
});

test("a hand-off whose stream goes on succeeds only when the stream has ended well", async () => {
  const { task, prefill, tracker, guard } = spawned(bootstrap());
  await quiet();
  expect(task.outcome).toBeNull();
  prefill.push(data({ inputLogprobs: [-2] }));
  await quiet();
  expect(task.outcome).toBeNull();
  prefill.end();
  expect(await task.settled).toMatchObject({ ok: true, tail: { inputLogprobs: [-2] } });
  expect(tracker.recordPrefillComplete()).toBe(false);
  expect(guard.released).toBe(1);
});

test("a failing tail is the task's failure", async () => {
  const { task, prefill } = spawned(bootstrap());
  prefill.push({ error: "no memory" });
  expect(await task.settled).toMatchObject({ ok: false, error: { code: "error_in_stream", cause: "no memory" } });
  prefill.end();
});

test.each([
  [{ kind: "error", message: "bad" } as const, "Prefill backend failed: bad"],
  [{ kind: "cancelled" } as const, "Prefill backend cancelled before completing the handoff"],
])("a terminal answer %j is a failure", async (finishReason, message) => {
  const { task, prefill } = spawned(data({ finishReason }));
  prefill.end();
  expect(await task.settled).toMatchObject({ ok: false, error: { message } });
});

test("any other terminal answer, and a hand-off without a tail, is a success", async () => {
  const completionUsage = { promptTokensDetails: { cached_tokens: 3 } };
  for (const output of [
    data({ finishReason: { kind: "stop" }, completionUsage }),
    data({ disaggregatedParams: raw({ ctx_request_id: 1 }), completionUsage }),
  ]) {
    const { task, prefill } = spawned(output);
    prefill.end();
    expect(await task.settled).toMatchObject({ ok: true, tail: completionUsage });
  }
});

test("what consuming refuses is the task's failure, never a rejection", async () => {
  const { task, prefill, background, guard } = spawned();
  prefill.end();
  expect(await task.settled).toMatchObject({ ok: false, error: { code: "no_output" } });
  expect(await Promise.all(background.tasks)).toEqual([undefined]);
  expect(guard.released).toBe(1);
});

test("decode can be forwarded while the spawned prefill runs", async () => {
  const { task, prefill } = spawned(bootstrap());
  const decode = new HandMade<string>();
  const stream = await task.forwardDecode(
    async () => decode.stream,
    () => {},
    { isTerminal: () => false, failure: () => false, errorItem: (error) => error.message },
  );
  const first = stream.getReader().read();
  prefill.push({ error: "gone" });
  expect(await first).toEqual({ done: false, value: "Prefill router returned error in output stream: gone" });
  prefill.end();
});
