import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Silence } from "../../src/relay/silence.ts";
import { ManualClock, settled } from "../manual-clock.ts";
import { DONE, finish, relayed, say } from "./hand-made.ts";

const PING = ": ping\n\n";

describe("silence counts from decode's last event", () => {
  test("also where a comment has come with the first answer, however long the router is up", async () => {
    const { clock, engine, read, told } = await relayed({ alone: true, limits: { idleMs: 1_000 } });
    clock.time = 500_000;
    engine.push(say("a") + PING);
    await settled();
    expect(await read()).toBe(say("a") + PING);
    const next = read();
    await clock.advance(999);
    expect(told).not.toContain("decode_timeout");
    engine.push(say("b") + finish() + DONE).end();
    expect(await next).toContain(say("b"));
  });

  test("also where a comment has come behind an event that was waited for", async () => {
    const { clock, engine, read, told } = await relayed({ alone: true, limits: { idleMs: 1_000 } });
    engine.push(say("a"));
    await settled();
    await read();
    const second = read();
    await clock.advance(900);
    engine.push(say("b") + PING);
    await second;
    const third = read();
    await clock.advance(999);
    expect(told).not.toContain("decode_timeout");
    await clock.advance(1);
    expect(await third).toContain("decode_timeout");
  });

  test("while it is waited for, and never more of it; whatever comes in whatever order", async () => {
    const step = fc.oneof(fc.nat(400), fc.constantFrom("event", "comment", "both", "stall"));
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
        const clock = new ManualClock();
        let fired = 0;
        const listener = { silent: () => void fired++ };
        const silence = new Silence(clock, 1_000, listener, { speaks: () => {} });
        let spent = 0;
        let expected = 0;
        silence.begin();
        for (const one of steps) {
          if (typeof one === "number") {
            if (expected === 0 && spent + one >= 1_000) expected = 1;
            spent += one;
            await clock.advance(one);
          } else {
            silence.pause();
            if (one === "event" || one === "both") {
              silence.broken();
              spent = 0;
            }
            if (one === "comment" || one === "both") silence.goesOn();
            else if (one === "stall") {
              silence.goesOn();
              await clock.advance(5_000);
            }
            if (expected === 0) silence.begin();
          }
          expect(fired).toBe(expected);
          if (expected === 1) break;
        }
        silence.stop();
        expect(clock.timers.size).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});
