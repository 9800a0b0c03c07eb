import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Breaker, type BreakerState } from "../../src/workers/breaker.ts";

const config = { failures: 3, openMs: 700, enabled: true };

function opened(): Breaker {
  const breaker = new Breaker(config);
  for (let n = 0; n < 3; n++) breaker.failed(0);
  return breaker;
}

describe("Breaker", () => {
  test("opens after so many failures in a row, and a success in between starts the count anew", () => {
    const breaker = new Breaker(config);
    breaker.failed(0);
    breaker.failed(0);
    breaker.succeeded(0);
    breaker.failed(0);
    breaker.failed(0);
    expect(breaker.state(0)).toBe("closed");
    breaker.failed(0);
    expect(breaker.state(0)).toBe("open");
    expect(breaker.allows(0)).toBe(false);
  });

  test("lets exactly one request through when the open time is over", () => {
    const breaker = opened();
    expect(breaker.allows(699)).toBe(false);
    expect(breaker.allows(700)).toBe(true);
    const probe = breaker.enter(700);
    expect(probe).toBeGreaterThan(0);
    expect(breaker.allows(700)).toBe(false);
    expect(breaker.enter(700)).toBe(0);
  });

  test("a neutral probe frees its place and leaves the breaker half-open; one failure then opens it at once", () => {
    const breaker = opened();
    breaker.leave(breaker.enter(700));
    expect(breaker.state(700)).toBe("half-open");
    expect(breaker.allows(700)).toBe(true);
    const probe = breaker.enter(700);
    breaker.failed(710);
    breaker.leave(probe);
    expect(breaker.state(710)).toBe("open");
    expect(breaker.allows(1409)).toBe(false);
    expect(breaker.allows(1410)).toBe(true);
  });

  test("a success closes a half-open breaker and everybody may come", () => {
    const breaker = opened();
    const probe = breaker.enter(700);
    breaker.succeeded(720);
    expect(breaker.state(720)).toBe("closed");
    expect([breaker.enter(720), breaker.enter(720)]).toEqual([0, 0]);
    breaker.leave(probe);
    expect(breaker.allows(720)).toBe(true);
  });

  test("an old probe that leaves late does not free the place of the next one", () => {
    const breaker = opened();
    const old = breaker.enter(700);
    breaker.failed(700);
    const next = breaker.enter(1400);
    expect(next).toBeGreaterThan(0);
    breaker.leave(old);
    expect(breaker.allows(1400)).toBe(false);
  });

  test("failures of requests from before do not make the open time longer, nor do their successes close it", () => {
    const breaker = opened();
    breaker.failed(600);
    breaker.succeeded(650);
    expect(breaker.state(699)).toBe("open");
    expect(breaker.state(700)).toBe("half-open");
  });

  test("switched off it never opens; switching it off at run time closes it", () => {
    const off = new Breaker({ ...config, enabled: false });
    for (let n = 0; n < 100; n++) off.failed(0);
    expect(off.allows(0)).toBe(true);
    const breaker = opened();
    breaker.configure({ ...config, enabled: false });
    expect(breaker.allows(0)).toBe(true);
  });

  test("a shorter open time counts for a breaker that is open already, a longer one from the next failure on", () => {
    const breaker = opened();
    breaker.configure({ ...config, openMs: 200 });
    expect([breaker.changesAt, breaker.state(199), breaker.state(200)]).toEqual([200, "open", "half-open"]);
    breaker.configure(config);
    expect(breaker.changesAt).toBe(200);
    breaker.failed(300);
    expect(breaker.changesAt).toBe(1_000);
  });

  test("tells its changes once each, in order", () => {
    const seen: string[] = [];
    const breaker = new Breaker(config, (to, from) => to !== from && seen.push(`${from}>${to}`));
    for (let n = 0; n < 5; n++) breaker.failed(0);
    breaker.enter(700);
    breaker.succeeded(700);
    expect(seen).toEqual(["closed>open", "open>half-open", "half-open>closed"]);
  });

  test("behaves like its model under any sequence of requests, outcomes and pauses", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("request" as const) }),
      fc.record({ kind: fc.constantFrom("success" as const, "failure" as const, "neutral" as const), pick: fc.nat() }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 900 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: "max" }), (steps) => {
        const breaker = new Breaker(config);
        let now = 0;
        let state: BreakerState = "closed";
        let row = 0;
        let openUntil = 0;
        // Requests under way, and which of them is the probe (an object, as the model knows no numbers).
        const open: { probe: number }[] = [];
        let holder: object | undefined;
        for (const one of steps) {
          if (state === "open" && now >= openUntil) state = "half-open";
          if (one.kind === "wait") now += one.ms;
          else if (one.kind === "request") {
            const allowed = state === "closed" || (state === "half-open" && holder === undefined);
            expect(breaker.allows(now)).toBe(allowed);
            if (!allowed) continue;
            const request = { probe: breaker.enter(now) };
            if (state === "half-open") holder = request;
            expect(request.probe > 0).toBe(holder === request);
            open.push(request);
          } else if (open.length > 0) {
            const [request] = open.splice(one.pick % open.length, 1);
            if (one.kind === "success") {
              row = 0;
              breaker.succeeded(now);
              if (state === "half-open") {
                state = "closed";
                holder = undefined;
              }
            } else if (one.kind === "failure") {
              breaker.failed(now);
              if (state === "closed") row += 1;
              if (state === "half-open" || (state === "closed" && row >= config.failures)) {
                state = "open";
                row = 0;
                openUntil = now + config.openMs;
                holder = undefined;
              }
            }
            if (holder === request) holder = undefined;
            breaker.leave(request!.probe);
          }
          if (state === "open" && now >= openUntil) state = "half-open";
          expect(breaker.state(now)).toBe(state);
        }
      }),
      { numRuns: 300 },
    );
  });
});
