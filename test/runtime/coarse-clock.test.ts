import { expect, test } from "bun:test";
import { CoarseClock } from "../../src/runtime/coarse-clock.ts";

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

test("calls come once, not before their time, and in the order of their ticks", async () => {
  const clock = new CoarseClock();
  const from = clock.now();
  const calls: [string, number][] = [];
  clock.after(40, () => calls.push(["late", clock.now() - from]));
  clock.after(15, () => calls.push(["early", clock.now() - from]));
  clock.after(0, () => calls.push(["now", clock.now() - from]));
  await sleep(90);
  expect(calls.map(([name]) => name)).toEqual(["now", "early", "late"]);
  expect(calls[1]![1]).toBeGreaterThanOrEqual(15);
  expect(calls[2]![1]).toBeGreaterThanOrEqual(40);
});

test("what is taken back is not called", async () => {
  const clock = new CoarseClock();
  let called = 0;
  const back = clock.after(10, () => called++);
  back();
  back();
  await sleep(40);
  expect(called).toBe(0);
});

/** Time stands where it is put; only the ticking is real. */
class HeldClock extends CoarseClock {
  time = 1_000;
  override now(): number {
    return this.time;
  }
  async tickAt(time: number): Promise<void> {
    this.time = time;
    await sleep(30);
  }
}

test("a deadline that takes back another of its tick neither calls it nor loses those of other requests", async () => {
  const clock = new HeldClock();
  const calls: string[] = [];
  // One deadline of a request ends the others, all set in the same tick.
  clock.after(20, () => {
    calls.push("first");
    back();
  });
  const back = clock.after(20, () => calls.push("taken back"));
  clock.after(60, () => calls.push("other request"));
  await clock.tickAt(1_020);
  await clock.tickAt(1_060);
  expect(calls).toEqual(["first", "other request"]);
});

test("a call made from within a call, without delay and on the edge of a tick, is not lost", async () => {
  const clock = new HeldClock();
  const calls: string[] = [];
  clock.after(10, () => {
    calls.push("outer");
    clock.after(0, () => calls.push("inner"));
  });
  await clock.tickAt(1_010);
  await clock.tickAt(1_020);
  expect(calls).toEqual(["outer", "inner"]);
});

/** Nothing else runs meanwhile, as when the process is stopped. */
function standStill(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test("deadlines are called all the same when every tick is late", async () => {
  const clock = new CoarseClock();
  let called = 0;
  clock.after(100, () => called++);
  for (let round = 0; round < 3; round++) {
    standStill(300);
    await sleep(0);
  }
  await sleep(1);
  expect(called).toBe(1);
});
