import { describe, expect, test } from "bun:test";
import { RequestTracker } from "../../src/prefill/tracker.ts";
import { ManualClock, quiet } from "./hand-made.ts";

describe("times", () => {
  test.each([
    ["recordPrefillStart", "prefillStartedAt"],
    ["recordFirstToken", "firstTokenAt"],
    ["recordPrefillComplete", "prefillCompletedAt"],
    ["recordDecodeFirstToken", "decodeFirstTokenAt"],
  ] as const)("%s: the first one counts, also at time 0, and says that it was the first", (record, at) => {
    const clock = new ManualClock();
    const tracker = new RequestTracker(clock);
    expect(tracker[at]).toBeUndefined();
    expect(tracker[record]()).toBe(true);
    clock.advance(10);
    expect(tracker[record]()).toBe(false);
    expect(tracker[at]).toBe(0);
  });

  test("the last finish counts", () => {
    const clock = new ManualClock();
    const tracker = new RequestTracker(clock);
    tracker.recordFinish();
    clock.advance(10);
    tracker.recordFinish();
    expect(tracker.finishedAt).toBe(10);
  });
});

describe("phases", () => {
  test("decode enters when prefill's permit is released, not before", async () => {
    const tracker = new RequestTracker(new ManualClock());
    const prefill = await tracker.enterPhase("prefill");
    expect(tracker.phase).toBe("prefill");
    let entered = false;
    const decode = tracker.enterPhase("decode").then((permit) => {
      entered = true;
      return permit;
    });
    await quiet();
    expect(entered).toBe(false);
    expect(tracker.tryEnterPhase("decode")).toBeUndefined();
    prefill.release();
    expect((await decode).phase).toBe("decode");
    expect(tracker.phase).toBe("decode");
  });

  test("a permit released twice does not free someone else's phase", async () => {
    const tracker = new RequestTracker(new ManualClock());
    const prefill = tracker.tryEnterPhase("prefill")!;
    const decode = tracker.enterPhase("decode");
    prefill.release();
    prefill.release();
    await decode;
    expect(tracker.tryEnterPhase("prefill")).toBeUndefined();
    (await decode).release();
    expect(tracker.phase).toBeUndefined();
  });

  test("those who wait enter in the order of asking, one at a time", async () => {
    const tracker = new RequestTracker(new ManualClock());
    const order: string[] = [];
    let inside = 0;
    async function walk(name: string): Promise<void> {
      const permit = await tracker.enterPhase("prefill");
      inside += 1;
      expect(inside).toBe(1);
      order.push(name);
      await quiet();
      inside -= 1;
      permit.release();
    }
    await Promise.all(["a", "b", "c"].map(walk));
    expect(order).toEqual(["a", "b", "c"]);
  });
});
