import { expect, test } from "bun:test";
import { Watch } from "../../src/legs/watch.ts";
import { ManualClock } from "../manual-clock.ts";

function watched() {
  const clock = new ManualClock();
  const expiries: number[] = [];
  const watch = new Watch(clock, () => expiries.push(clock.now() - 1_000));
  return { clock, watch, expiries };
}

test("a deadline expires once, and not before its time", async () => {
  const { clock, watch, expiries } = watched();
  watch.set(100);
  await clock.advance(99);
  expect(expiries).toEqual([]);
  await clock.advance(500);
  expect(expiries).toEqual([100]);
});

test("a deadline that is moved on for each of a thousand events costs a handful of timers", async () => {
  const { clock, watch, expiries } = watched();
  let armed = 0;
  const after = clock.after.bind(clock);
  clock.after = (ms, fn) => {
    armed++;
    return after(ms, fn);
  };
  for (let event = 0; event < 1_000; event++) {
    watch.set(100);
    await Promise.resolve();
    clock.time += 1;
    for (const timer of [...clock.timers]) {
      if (timer.at > clock.time) continue;
      clock.timers.delete(timer);
      timer.fn();
    }
  }
  expect(expiries).toEqual([]);
  expect(armed).toBeLessThan(15);
});

test("an earlier deadline takes the place of a later one", async () => {
  const { clock, watch, expiries } = watched();
  watch.set(1_000);
  watch.set(10);
  await clock.advance(2_000);
  expect(expiries).toEqual([10]);
});

test("while paused nothing expires, and afterwards the new deadline holds", async () => {
  const { clock, watch, expiries } = watched();
  watch.set(100);
  watch.pause();
  await clock.advance(150);
  watch.set(100);
  await clock.advance(99);
  expect(expiries).toEqual([]);
  await clock.advance(1);
  expect(expiries).toEqual([250]);
});

test("a stopped watch leaves no timer behind, and no limit means no timer at all", () => {
  const { clock, watch } = watched();
  watch.set(100);
  watch.stop();
  watch.set(0);
  watch.set(Number.POSITIVE_INFINITY);
  expect(clock.timers.size).toBe(0);
});
