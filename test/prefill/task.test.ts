import { describe, expect, test } from "bun:test";
import { consumePrefillStream } from "../../src/prefill/consume.ts";
import { PrefillError } from "../../src/prefill/errors.ts";
import type { PrefillOutput } from "../../src/prefill/output.ts";
import { type PrefillOutcome, PrefillTask } from "../../src/prefill/task.ts";
import { RequestTracker } from "../../src/prefill/tracker.ts";
import { bootstrap, CountingGuard, data, HandMade, quiet, surroundings } from "./hand-made.ts";

async function started(first: PrefillOutput = bootstrap()) {
  const ports = surroundings();
  const tracker = new RequestTracker(ports.clock);
  const guard = new CountingGuard();
  const tail = new HandMade<PrefillOutput>(first);
  const { completion } = await consumePrefillStream(tail.stream, { ...ports, tracker, guard });
  if (completion === undefined) throw new Error("expected a prefill that goes on");
  return { ...ports, tracker, guard, tail, task: completion };
}

describe("the completion observer", () => {
  const cause = new Error("transfer failed");
  test.each<[string, PrefillOutput, string, string, unknown]>([
    [
      "an error output",
      { error: cause },
      "error_in_stream",
      "Prefill router returned error in output stream: transfer failed",
      cause,
    ],
    [
      "finish reason error",
      data({ finishReason: { kind: "error", message: "KV lost" } }),
      "backend_failed",
      "Prefill backend failed: KV lost",
      undefined,
    ],
    [
      "finish reason cancelled",
      data({ finishReason: { kind: "cancelled" } }),
      "backend_cancelled",
      "Prefill backend cancelled before completing the handoff",
      undefined,
    ],
  ])("hears of %s in the tail", async (_, output, code, message, itsCause) => {
    const { task, tail, tracker } = await started();
    const heard: PrefillOutcome[] = [];
    task.onSettled((outcome) => heard.push(outcome));
    tail.push(data({}));
    await quiet();
    expect(heard).toEqual([]);
    tail.push(output);
    tail.end();
    const outcome = await task.settled;
    if (outcome.ok) throw new Error("expected a failure");
    expect(outcome.error).toBeInstanceOf(PrefillError);
    expect(outcome.error).toMatchObject({ code, message });
    expect(outcome.error.cause).toBe(itsCause);
    expect(heard).toEqual([outcome]);
    expect(task.outcome).toBe(outcome);
    await quiet();
    expect(tracker.prefillCompletedAt).toBeUndefined();
  });

  test("hears of a transport that breaks, with its error as the cause", async () => {
    const { task, tail, guard } = await started();
    tail.fail(cause);
    const outcome = await task.settled;
    expect(outcome).toMatchObject({ ok: false, error: { code: "error_in_stream", cause } });
    expect(guard.released).toBe(1);
  });

  test("gets the tail's details after a good end, which also records prefill complete", async () => {
    const { task, tail, tracker, clock } = await started();
    clock.advance(40);
    tail.push(data({ completionUsage: { promptTokensDetails: { cached_tokens: 5 } }, inputLogprobs: [-1] }));
    await quiet();
    expect(tracker.prefillCompletedAt).toBeUndefined();
    tail.push(
      data({ completionUsage: { promptTokensDetails: { cached_tokens: 6 } }, finishReason: { kind: "length" } }),
    );
    tail.end();
    const outcome = await task.settled;
    expect(outcome).toEqual({ ok: true, tail: { promptTokensDetails: { cached_tokens: 5 }, inputLogprobs: [-1] } });
    expect(tracker.prefillCompletedAt).toBe(40);
  });

  test("is called in the tick in which the task settles, and at once when it already has", () => {
    const task = new PrefillTask(surroundings());
    const order: string[] = [];
    task.onSettled(() => order.push("first"));
    task.onSettled(() => {
      task.onSettled(() => order.push("inner"));
      order.push("second");
    });
    task.settle({ ok: true, tail: {} });
    order.push("after settle");
    expect(task.settle({ ok: true, tail: {} })).toBe(false);
    expect(order).toEqual(["first", "inner", "second", "after settle"]);
  });

  test("that has unsubscribed is not called, not even when another one unsubscribes it on the way", () => {
    const task = new PrefillTask(surroundings());
    const order: string[] = [];
    const takeBack = task.onSettled(() => order.push("never"));
    takeBack();
    takeBack();
    let takeBackLast = () => {};
    task.onSettled(() => {
      order.push("one");
      takeBackLast();
    });
    takeBackLast = task.onSettled(() => order.push("never"));
    task.settle({ ok: true, tail: {} });
    expect(order).toEqual(["one"]);
  });

  test("that throws harms neither the drain nor the next observer, and the background port hears of it", async () => {
    const { task, tail, guard, background } = await started();
    const thrown = new Error("observer");
    let next = 0;
    task.onSettled(() => {
      throw thrown;
    });
    task.onSettled(() => {
      next += 1;
    });
    tail.push({ error: "bad" });
    await quiet();
    expect(next).toBe(1);
    expect(background.faults).toEqual([thrown]);
    tail.end();
    await Promise.all(background.tasks);
    expect(guard.released).toBe(1);
  });
});

describe("the drain", () => {
  test("keeps the guard until the stream ends, also when nobody holds the observer any more", async () => {
    const ports = surroundings();
    const guard = new CountingGuard();
    const tail = new HandMade<PrefillOutput>(bootstrap());
    await consumePrefillStream(tail.stream, { ...ports, guard });
    Bun.gc(true);
    await quiet();
    expect(guard.released).toBe(0);
    expect(tail.cancelled).toEqual([]);
    tail.push(data({}));
    await quiet();
    expect(guard.released).toBe(0);
    tail.end();
    await Promise.all(ports.background.tasks);
    expect(guard.released).toBe(1);
  });

  test("reads on after a failure: the failure is known at once, the guard is released at the end", async () => {
    const { task, tail, guard, background } = await started();
    tail.push({ error: "bad" });
    await quiet();
    expect(task.outcome?.ok).toBe(false);
    expect(guard.released).toBe(0);
    tail.push({ error: "worse" });
    await quiet();
    expect(guard.released).toBe(0);
    tail.fail(new Error("and gone"));
    await Promise.all(background.tasks);
    expect(task.outcome).toMatchObject({ error: { cause: "bad" } });
    expect(guard.released).toBe(1);
  });

  test("that fails without an observer is no unhandled rejection", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => {
      unhandled.push(reason);
    };
    process.on("unhandledRejection", note);
    try {
      for (const fail of [
        (tail: HandMade<PrefillOutput>) => {
          tail.push({ error: "bad" });
          tail.end();
        },
        (tail: HandMade<PrefillOutput>) => tail.fail(new Error("cut")),
      ]) {
        const { tail, guard } = await started();
        fail(tail);
        await quiet();
        await quiet();
        expect(guard.released).toBe(1);
      }
      expect(unhandled).toEqual([]);
    } finally {
      process.off("unhandledRejection", note);
    }
  });

  test("that has a guard which throws still settles", async () => {
    const ports = surroundings();
    const thrown = new Error("guard");
    const guard = {
      release() {
        throw thrown;
      },
    };
    const tail = new HandMade<PrefillOutput>(bootstrap());
    const { completion } = await consumePrefillStream(tail.stream, { ...ports, guard });
    tail.end();
    await Promise.all(ports.background.tasks);
    expect(completion?.outcome?.ok).toBe(true);
    expect(ports.background.faults).toEqual([thrown]);
  });

  test("gives the guard back before anyone hears of the end", async () => {
    const { task, tail, guard } = await started();
    let seen = -1;
    task.onSettled(() => {
      seen = guard.released;
    });
    tail.end();
    await quiet();
    expect(seen).toBe(1);
  });

  test("makes no promise for `settled` unless asked, and the same one when asked again", async () => {
    const { task, tail } = await started();
    expect(task.settled).toBe(task.settled);
    tail.end();
    expect((await task.settled).ok).toBe(true);
  });
});
