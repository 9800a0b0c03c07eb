import { describe, expect, test } from "bun:test";
import { PoolSpeed } from "../../src/regions/pool-speed.ts";
import { Recovery } from "../../src/regions/recovery.ts";

describe("what traffic teaches about a pool", () => {
  test("time to headers stays near the floor: one slow answer in ten does not look like distance", () => {
    const speed = new PoolSpeed();
    expect(speed.headersMs(0)).toBeUndefined();
    for (let n = 0; n < 500; n++) speed.answered(n % 10 === 0 ? 900 : 40, 30, 0);
    expect(speed.headersMs(0)).toBeWithin(39, 70);
    expect(speed.excessMs(0)).toBeWithin(9, 40);
  });

  test("a path that has got longer for good is believed, after a while", () => {
    const speed = new PoolSpeed();
    speed.answered(20, undefined, 0);
    for (let n = 0; n < 30; n++) speed.answered(120, undefined, 0);
    expect(speed.headersMs(0)).toBeLessThan(80);
    for (let n = 0; n < 200; n++) speed.answered(120, undefined, 0);
    expect(speed.headersMs(0)).toBeGreaterThan(115);
    expect(speed.excessMs(0)).toBeUndefined();
  });

  test("an answer that took twenty seconds was no journey: not the first one, and not one among others", () => {
    const cold = new PoolSpeed();
    cold.answered(20_000, 10, 0);
    expect(cold.excessMs(0)).toBeLessThanOrEqual(250);
    const warm = new PoolSpeed();
    for (let n = 0; n < 100; n++) warm.answered(5, 0, 0);
    warm.answered(20_000, 0, 0);
    expect(warm.excessMs(0)).toBeLessThan(30);
  });

  test("few answers fade, many fall back to the nearest that was seen, and after a long silence it is measured anew", () => {
    const few = new PoolSpeed();
    for (let n = 0; n < 3; n++) few.answered(200, 0, 0);
    expect(few.excessMs(120_000)).toBeCloseTo(100);
    expect(few.excessMs(1_200_000)).toBeLessThan(1);
    const far = new PoolSpeed();
    for (let n = 0; n < 100; n++) far.answered(200, 0, 0);
    expect(far.excessMs(36_000_000)).toBe(200);
    const slowed = new PoolSpeed();
    for (let n = 0; n < 20; n++) slowed.answered(10, 0, 0);
    for (let n = 0; n < 100; n++) slowed.answered(900, 0, 0);
    expect(slowed.excessMs(0)).toBeGreaterThan(500);
    expect(slowed.excessMs(1_200_000)).toBeWithin(10, 12);
    slowed.answered(180, 0, 1_200_000);
    expect(slowed.excessMs(1_200_000)).toBe(180);
  });

  test("one slow answer after a quiet time does not make a near pool look far for good", () => {
    const speed = new PoolSpeed();
    for (let n = 0; n < 100; n++) speed.answered(5, 0, n * 100);
    speed.answered(250, 0, 140_000);
    expect(speed.excessMs(140_000)).toBe(250);
    expect(speed.excessMs(740_000)).toBeLessThan(15);
    expect(speed.excessMs(36_140_000)).toBeCloseTo(5);
  });

  test("a first prompt that somebody had cached does not decide how fast a pool is", () => {
    const speed = new PoolSpeed();
    const before = speed.tokensPerMs;
    speed.prefilled(30_000, 40);
    expect(speed.tokensPerMs).toBeWithin(before, before * 1.5);
    for (let n = 0; n < 16; n++) speed.prefilled(4_000, 500);
    expect(speed.tokensPerMs).toBeWithin(7.5, 8.5);
  });

  test("a pool that is slow, or fast, is known after a few dozen prompts", () => {
    const slow = new PoolSpeed();
    for (let n = 0; n < 100; n++) slow.prefilled(4_000, 2_000);
    expect(slow.tokensPerMs).toBeLessThan(2.1);
    const fast = new PoolSpeed();
    for (let n = 0; n < 100; n++) fast.prefilled(4_000, 100);
    expect(fast.tokensPerMs).toBeWithin(38, 42);
  });

  test("speed of prefill: short prompts say nothing, and waiting does not look like slowness at once", () => {
    const speed = new PoolSpeed();
    const before = speed.tokensPerMs;
    speed.prefilled(10, 100);
    expect(speed.tokensPerMs).toBe(before);
    for (let n = 0; n < 50; n++) speed.prefilled(4_000, 200);
    expect(speed.tokensPerMs).toBeWithin(19, 21);
    // One prompt that somebody had cached without our knowing: no more than a step.
    speed.prefilled(4_000, 10);
    expect(speed.tokensPerMs).toBeLessThan(21);
    speed.prefilled(4_000, 20_000);
    expect(speed.tokensPerMs).toBeGreaterThan(19);
  });
});

describe("recovery", () => {
  test("eight failures in a row take a pool out for ten seconds, seven and a success do not", () => {
    const recovery = new Recovery();
    for (let n = 0; n < 7; n++) recovery.failed(0);
    recovery.succeeded(0);
    for (let n = 0; n < 7; n++) recovery.failed(0);
    expect(recovery.share(true, 0)).toBe(1);
    recovery.failed(0);
    expect(recovery.share(true, 9_999)).toBe(0);
    expect(recovery.share(true, 10_000)).toBeCloseTo(0.05, 5);
  });

  test("it gets its share back over half a minute, never by a jump", () => {
    const recovery = new Recovery();
    expect(recovery.share(false, 1_000)).toBe(0);
    let before = 0;
    for (let now = 2_000; now <= 32_000; now += 100) {
      const share = recovery.share(true, now);
      expect(share - before).toBeWithin(0, now === 2_000 ? 0.051 : 0.004);
      before = share;
    }
    expect(before).toBe(1);
  });

  test("one that fails again while it comes back stays away for longer, at most a minute", () => {
    const recovery = new Recovery();
    for (let n = 0; n < 8; n++) recovery.failed(0);
    let now = 0;
    for (const ms of [10_000, 20_000, 40_000, 60_000, 60_000]) {
      now += ms;
      expect(recovery.share(true, now - 1)).toBe(0);
      expect(recovery.share(true, now)).toBeGreaterThan(0);
      for (let n = 0; n < 3; n++) recovery.failed(now);
    }
  });
});
