import { describe, expect, test } from "bun:test";
import { consumePrefillStream } from "../../src/prefill/consume.ts";
import { PrefillError } from "../../src/prefill/errors.ts";
import { forwardDecode } from "../../src/prefill/forward.ts";
import type { PrefillOutput } from "../../src/prefill/output.ts";
import { PrefillTask } from "../../src/prefill/task.ts";
import { bootstrap, CountingGuard, HandMade, quiet, readAll, rejection, surroundings } from "./hand-made.ts";

const RULES = {
  isTerminal: (item: string) => item === "finish",
  failure: (item: string) => item.startsWith("error"),
  errorItem: (error: Error) => `error: ${error.message}`,
};

const FAILED = { ok: false, error: new PrefillError("backend_failed", "Prefill backend failed: KV lost") } as const;
const GOOD = { ok: true, tail: {} } as const;
const FRAME = "error: Prefill backend failed: KV lost";

function setting(settleMs?: number) {
  const ports = surroundings(settleMs);
  const task = new PrefillTask(ports);
  const decode = new HandMade<string>();
  const cancelled: unknown[] = [];
  const cancel = (reason: unknown) => {
    cancelled.push(reason);
  };
  return { ...ports, task, decode, cancel, cancelled };
}

function forward(at: ReturnType<typeof setting>): Promise<ReadableStream<string>> {
  return at.task.forwardDecode(async () => at.decode.stream, at.cancel, RULES);
}

/** Reads in the background, as a client does, and shows what has come so far. */
function watch(stream: ReadableStream<string>) {
  const seen: { items: string[]; end: unknown } = { items: [], end: undefined };
  const reader = stream.getReader();
  async function read(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        seen.items.push(value);
      }
      seen.end = "closed";
    } catch (error) {
      seen.end = error;
    }
  }
  void read();
  return seen;
}

describe("before decode has opened", () => {
  test("a prefill that failed already: decode is never opened", async () => {
    const at = setting();
    at.task.settle(FAILED);
    let opened = 0;
    const open = async () => {
      opened += 1;
      return at.decode.stream;
    };
    expect(await rejection(at.task.forwardDecode(open, at.cancel, RULES))).toBe(FAILED.error);
    expect(opened).toBe(0);
    expect(at.cancelled).toEqual([FAILED.error]);
  });

  test("prefill fails while decode is opening: the opening is cancelled and the call rejects", async () => {
    const at = setting();
    const opening = Promise.withResolvers<ReadableStream<string>>();
    const forwarded = rejection(at.task.forwardDecode(() => opening.promise, at.cancel, RULES));
    await quiet();
    at.task.settle(FAILED);
    expect(at.cancelled).toEqual([FAILED.error]);
    expect(await forwarded).toBe(FAILED.error);
    // A decode that opens although it was told not to has nobody to read it.
    opening.resolve(at.decode.stream);
    await quiet();
    expect(at.decode.cancelled).toEqual([FAILED.error]);
  });

  test("prefill fails and the cancelled opening rejects: the error is prefill's", async () => {
    const at = setting();
    const opening = Promise.withResolvers<ReadableStream<string>>();
    const cancel = (reason: unknown) => opening.reject(reason);
    const forwarded = rejection(forwardDecode(at.task, () => opening.promise, cancel, RULES, at));
    at.task.settle(FAILED);
    expect(await forwarded).toBe(FAILED.error);
  });

  test("decode fails to open: its error goes out at once, prefill is not awaited", async () => {
    const refused = new Error("refused");
    for (const open of [
      () => Promise.reject(refused),
      (): never => {
        throw refused;
      },
    ]) {
      const at = setting();
      expect(await rejection(at.task.forwardDecode<string>(open, at.cancel, RULES))).toBe(refused);
      at.task.settle(FAILED);
      expect(at.cancelled).toEqual([]);
    }
  });

  test("a decode stream that someone else reads is a decode that did not open", async () => {
    const at = setting();
    at.decode.stream.getReader();
    expect(await rejection(forward(at))).toBeInstanceOf(TypeError);
  });

  test("completed prefill leaves the decode stream unwrapped", async () => {
    const before = setting();
    before.task.settle(GOOD);
    expect(await forward(before)).toBe(before.decode.stream);

    const during = setting();
    const opening = Promise.withResolvers<ReadableStream<string>>();
    const forwarded = during.task.forwardDecode(() => opening.promise, during.cancel, RULES);
    during.task.settle(GOOD);
    opening.resolve(during.decode.stream);
    expect(await forwarded).toBe(during.decode.stream);
  });
});

describe("while prefill is pending", () => {
  test("decode is silent for ever: one error item that says Prefill, the end, and decode is cancelled", async () => {
    const ports = surroundings();
    const prefill = new HandMade<PrefillOutput>(bootstrap());
    const { completion } = await consumePrefillStream(prefill.stream, ports);
    const decode = new HandMade<string>();
    const cancelled: unknown[] = [];
    const stream = await completion!.forwardDecode(
      async () => decode.stream,
      (reason) => cancelled.push(reason),
      RULES,
    );
    const seen = watch(stream);
    await quiet();
    expect(seen).toEqual({ items: [], end: undefined });
    prefill.push({ error: "KV transfer timed out" });
    await quiet();
    expect(seen.end).toBe("closed");
    expect(seen.items).toHaveLength(1);
    expect(seen.items[0]).toContain("Prefill");
    expect(seen.items[0]).toContain("KV transfer timed out");
    expect(cancelled).toHaveLength(1);
    expect(decode.cancelled).toEqual(cancelled);
    prefill.end();
  });

  test("a failure before anyone reads is kept for the reader", async () => {
    const at = setting();
    const stream = await forward(at);
    at.task.settle(FAILED);
    expect(await readAll(stream)).toEqual([FRAME]);
  });

  test("tokens flow, only success waits", async () => {
    const at = setting();
    const seen = watch(await forward(at));
    for (const token of ["a", "b"]) {
      at.decode.push(token);
      await quiet();
      expect(seen.items.at(-1)).toBe(token);
    }
    at.decode.push("finish");
    at.decode.push("usage");
    at.decode.end();
    await quiet();
    expect(seen).toEqual({ items: ["a", "b"], end: undefined });
    at.task.settle(GOOD);
    await quiet();
    expect(seen).toEqual({ items: ["a", "b", "finish", "usage"], end: "closed" });
    expect(at.cancelled).toEqual([]);
    expect(at.clock.timers.size).toBe(0);
  });

  test("an end without a finish waits just the same", async () => {
    const at = setting();
    at.decode.push("a");
    at.decode.end();
    const seen = watch(await forward(at));
    await quiet();
    expect(seen).toEqual({ items: ["a"], end: undefined });
    at.task.settle(GOOD);
    await quiet();
    expect(seen.end).toBe("closed");
  });

  test.each([
    ["finish", ["a", "finish"]],
    ["the end", ["a"]],
  ])("a late failure replaces %s", async (_, items) => {
    const at = setting();
    for (const item of items) at.decode.push(item);
    at.decode.end();
    const seen = watch(await forward(at));
    await quiet();
    at.task.settle(FAILED);
    await quiet();
    expect(seen).toEqual({ items: ["a", FRAME], end: "closed" });
    expect(at.cancelled).toEqual([FAILED.error]);
    expect(at.clock.timers.size).toBe(0);
  });

  test("success is released after settleMs, and nothing can fail any more", async () => {
    const at = setting(500);
    const seen = watch(await forward(at));
    at.decode.push("finish");
    await quiet();
    at.clock.advance(499);
    await quiet();
    expect(seen.items).toEqual([]);
    at.clock.advance(1);
    await quiet();
    expect(seen.items).toEqual(["finish"]);
    at.task.settle(FAILED);
    at.decode.push("usage");
    await quiet();
    expect(seen).toEqual({ items: ["finish", "usage"], end: undefined });
    at.decode.push("error: late");
    await quiet();
    expect(seen).toEqual({ items: ["finish", "usage"], end: "closed" });
    expect(at.cancelled).toEqual([]);
  });

  test("a transport that breaks after the released success just ends the stream", async () => {
    const at = setting(500);
    const seen = watch(await forward(at));
    at.decode.push("finish");
    await quiet();
    at.clock.advance(500);
    await quiet();
    at.decode.fail(new Error("cut"));
    await quiet();
    expect(seen).toEqual({ items: ["finish"], end: "closed" });
  });

  test("settleMs 0 does not wait at all", async () => {
    const at = setting(0);
    at.decode.push("finish");
    at.decode.end();
    expect(await readAll(await forward(at))).toEqual(["finish"]);
    const empty = setting(0);
    empty.decode.end();
    expect(await readAll(await forward(empty))).toEqual([]);
  });

  test("decode's failed item goes out at once, is the last one, and prefill's later failure adds nothing", async () => {
    const at = setting();
    const seen = watch(await forward(at));
    at.decode.push("a");
    at.decode.push("error: decode");
    at.decode.push("finish");
    await quiet();
    expect(seen).toEqual({ items: ["a", "error: decode"], end: "closed" });
    expect(at.decode.cancelled).toHaveLength(1);
    at.task.settle(FAILED);
    await quiet();
    expect(seen.items).toEqual(["a", "error: decode"]);
    expect(at.cancelled).toEqual([]);
  });

  test("a decode that breaks goes out at once, as the same error", async () => {
    const at = setting();
    const seen = watch(await forward(at));
    const cut = new Error("cut");
    at.decode.fail(cut);
    await quiet();
    expect(seen).toEqual({ items: [], end: cut });
    at.task.settle(FAILED);
    expect(at.cancelled).toEqual([]);
    expect(at.background.faults).toEqual([]);
  });

  test("once prefill is good, decode's items are not looked at any more", async () => {
    const at = setting();
    let looks = 0;
    const rules = {
      ...RULES,
      failure: (item: string) => {
        looks += 1;
        return RULES.failure(item);
      },
    };
    const seen = watch(await at.task.forwardDecode(async () => at.decode.stream, at.cancel, rules));
    at.decode.push("a");
    await quiet();
    at.task.settle(GOOD);
    at.decode.push("b");
    at.decode.push("finish");
    at.decode.end();
    await quiet();
    expect(seen).toEqual({ items: ["a", "b", "finish"], end: "closed" });
    expect(looks).toBe(1);
    expect(at.clock.timers.size).toBe(0);
  });

  test("a rule that throws errors the stream and cancels decode", async () => {
    const at = setting();
    const thrown = new Error("rule");
    const rules = {
      ...RULES,
      isTerminal: () => {
        throw thrown;
      },
    };
    const seen = watch(await at.task.forwardDecode(async () => at.decode.stream, at.cancel, rules));
    at.decode.push("a");
    await quiet();
    expect(seen).toEqual({ items: [], end: thrown });
    expect(at.decode.cancelled).toEqual([thrown]);
  });

  test("nothing is read ahead of the client", async () => {
    const at = setting();
    let pulls = 0;
    const source = new ReadableStream<string>(
      {
        pull(controller) {
          pulls += 1;
          controller.enqueue(`t${pulls}`);
        },
      },
      { highWaterMark: 0 },
    );
    const reader = (await at.task.forwardDecode(async () => source, at.cancel, RULES)).getReader();
    await quiet();
    expect(pulls).toBe(0);
    await reader.read();
    await quiet();
    expect(pulls).toBe(1);
  });
});

describe("a client that leaves", () => {
  test("cancels decode and nothing else: the drain reads on and keeps its guard", async () => {
    const ports = surroundings();
    const guard = new CountingGuard();
    const prefill = new HandMade<PrefillOutput>(bootstrap());
    const { completion } = await consumePrefillStream(prefill.stream, { ...ports, guard });
    const decode = new HandMade<string>("a");
    const cancelled: unknown[] = [];
    const stream = await completion!.forwardDecode(
      async () => decode.stream,
      (reason) => cancelled.push(reason),
      RULES,
    );
    await stream.cancel("client has left");
    expect(decode.cancelled).toEqual(["client has left"]);
    expect(prefill.cancelled).toEqual([]);
    expect(guard.released).toBe(0);
    expect(completion!.outcome).toBeNull();
    prefill.push({ error: "bad" });
    prefill.end();
    await Promise.all(ports.background.tasks);
    expect(guard.released).toBe(1);
    expect(completion!.outcome?.ok).toBe(false);
    expect(cancelled).toEqual([]);
    expect(ports.background.faults).toEqual([]);
  });

  test("while success is held leaves no timer behind", async () => {
    const at = setting();
    const stream = await forward(at);
    const reader = stream.getReader();
    const pending = reader.read();
    at.decode.push("finish");
    await quiet();
    expect(at.clock.timers.size).toBe(1);
    await reader.cancel("gone");
    expect((await pending).done).toBe(true);
    expect(at.clock.timers.size).toBe(0);
    expect(at.decode.cancelled).toEqual(["gone"]);
  });
});
