import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Failure } from "../../src/errors/failure.ts";
import { Admission, type Admitted, type Permit, requestPriority, type Waiting } from "../../src/workers/admission.ts";
import { HandClock } from "./fixtures.ts";

function permitOf(admitted: Admitted): Permit {
  if (!("permit" in admitted)) throw new Error("Wanted a place at once");
  return admitted.permit;
}

function waitingOf(admitted: Admitted): Waiting {
  if (!("waiting" in admitted)) throw new Error("Wanted a place to wait for");
  return admitted.waiting;
}

describe("Admission", () => {
  test("lets so many in and refuses the next with 503 and Retry-After", () => {
    const door = new Admission({ concurrency: 2, queue: 0, queueMs: 0 }, new HandClock());
    const first = permitOf(door.enter());
    permitOf(door.enter());
    const third = door.enter();
    expect(third).toHaveProperty("refusal.code", "router_overloaded");
    expect(third).toHaveProperty("refusal.status", 503);
    expect(third).toHaveProperty("refusal.retryAfterSeconds", 1);
    first.release();
    first.release();
    permitOf(door.enter());
    expect(door.enter()).toHaveProperty("refusal");
    expect(door.active).toBe(2);
  });

  test("those who wait come in by priority, first come first served among equals, and are told how long it was", async () => {
    const clock = new HandClock();
    const door = new Admission({ concurrency: 1, queue: 9, queueMs: 10_000 }, clock);
    const running = permitOf(door.enter());
    const order: string[] = [];
    const line = (["a:0", "b:5", "c:0", "d:5", "e:-1"] as const).map((label) => {
      const waiting = waitingOf(door.enter(Number(label.split(":")[1])));
      return waiting.permit.then((permit) => {
        order.push(`${label} ${permit.waitedMs}`);
        permit.release();
      });
    });
    expect(door.queued).toBe(5);
    clock.advance(30);
    running.release();
    await Promise.all(line);
    expect(order).toEqual(["b:5 30", "d:5 30", "a:0 30", "c:0 30", "e:-1 30"]);
    expect([door.active, door.queued, clock.pending]).toEqual([0, 0, 0]);
  });

  test("a full queue refuses; a wait that is too long ends in queue_timeout and leaves no place taken", async () => {
    const clock = new HandClock();
    const door = new Admission({ concurrency: 1, queue: 1, queueMs: 500 }, clock);
    const running = permitOf(door.enter());
    const { permit } = waitingOf(door.enter());
    expect(door.enter(100)).toHaveProperty("refusal.code", "router_overloaded");
    clock.advance(500);
    const failure = await permit.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).toMatchObject({ code: "queue_timeout", status: 503, retryAfterSeconds: 1 });
    running.release();
    expect([door.active, door.queued]).toEqual([0, 0]);
  });

  test("a client that leaves the queue gives its turn to the next, also when it was let in at that very moment", async () => {
    const clock = new HandClock();
    const door = new Admission({ concurrency: 1, queue: 3, queueMs: 0 }, clock);
    const running = permitOf(door.enter());
    const gone = waitingOf(door.enter());
    const late = waitingOf(door.enter());
    const next = waitingOf(door.enter());
    gone.leave();
    running.release();
    late.leave();
    const permit = await next.permit;
    expect(door.active).toBe(1);
    permit.release();
    expect([door.active, door.queued]).toEqual([0, 0]);
  });

  test("closing refuses newcomers and those who wait as shutting_down, and leaves running requests alone", async () => {
    const door = new Admission({ concurrency: 1, queue: 3, queueMs: 1000 }, new HandClock());
    const running = permitOf(door.enter());
    const waiting = waitingOf(door.enter());
    door.close(7);
    expect(await waiting.permit.catch((error: Failure) => error.code)).toBe("shutting_down");
    expect(door.enter()).toHaveProperty("refusal.code", "shutting_down");
    expect(door.enter()).toHaveProperty("refusal.retryAfterSeconds", 7);
    expect(door.active).toBe(1);
    running.release();
    expect(door.active).toBe(0);
  });

  test("more room at run time lets those who wait in; less takes nobody's place", async () => {
    const door = new Admission({ concurrency: 1, queue: 3, queueMs: 0 }, new HandClock());
    permitOf(door.enter());
    const waiting = waitingOf(door.enter());
    door.configure({ concurrency: 2, queue: 0, queueMs: 0 });
    await waiting.permit;
    door.configure({ concurrency: 1, queue: 0, queueMs: 0 });
    expect(door.active).toBe(2);
    expect(door.enter()).toHaveProperty("refusal");
  });

  test("behaves like its model: never more inside than allowed, never an idle place while somebody waits", async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("enter" as const), priority: fc.integer({ min: -2, max: 2 }) }),
      fc.record({ kind: fc.constantFrom("release" as const, "leave" as const), pick: fc.nat() }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 80 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 50, size: "max" }), async (steps) => {
        const clock = new HandClock();
        const limits = { concurrency: 3, queue: 4, queueMs: 100 };
        const door = new Admission(limits, clock);
        type Guest = { id: number; priority: number; since: number; waiting: Waiting; got: string };
        let ids = 0;
        let line: Guest[] = [];
        const everybody: Guest[] = [];
        const inside: (Permit | Guest)[] = [];
        const permits = new Map<Guest, Permit>();
        const fill = () => {
          while (inside.length < limits.concurrency && line.length > 0) {
            const best = line.reduce((a, b) => (b.priority > a.priority ? b : a));
            line = line.filter((guest) => guest !== best);
            inside.push(best);
          }
        };
        for (const one of steps) {
          if (one.kind === "enter") {
            const admitted = door.enter(one.priority);
            if (inside.length < limits.concurrency) inside.push(permitOf(admitted));
            else if (line.length < limits.queue) {
              const waiting = waitingOf(admitted);
              const guest: Guest = { id: ids++, priority: one.priority, since: clock.now(), waiting, got: "" };
              waiting.permit.then(
                (permit) => {
                  guest.got = "in";
                  permits.set(guest, permit);
                },
                (failure: Failure) => {
                  guest.got = failure.code;
                },
              );
              line.push(guest);
              everybody.push(guest);
            } else expect(admitted).toHaveProperty("refusal.code", "router_overloaded");
          } else if (one.kind === "wait") {
            clock.advance(one.ms);
            line = line.filter((guest) => guest.since + limits.queueMs > clock.now());
          } else if (one.kind === "leave" && line.length > 0) {
            const guest = line[one.pick % line.length]!;
            guest.waiting.leave();
            guest.got = "left";
            line = line.filter((other) => other !== guest);
          } else if (one.kind === "release" && inside.length > 0) {
            const [who] = inside.splice(one.pick % inside.length, 1);
            const permit = "release" in who! ? who : permits.get(who!)!;
            permit.release();
            permit.release();
            fill();
          }
          for (let turn = 0; turn < 3; turn++) await Promise.resolve();
          expect(door.active).toBe(inside.length);
          expect(door.queued).toBe(line.length);
          for (const guest of everybody) {
            if (line.includes(guest)) expect(guest.got).toBe("");
            else if (inside.includes(guest)) expect(guest.got).toBe("in");
            else expect(["in", "left", "queue_timeout"]).toContain(guest.got);
          }
        }
        expect(clock.pending).toBe(line.length);
      }),
      { numRuns: 150 },
    );
  });
});

describe("requestPriority", () => {
  test.each([
    ["5", 5],
    [" -3 ", -3],
    ["+7", 7],
    ["999", 100],
    ["1e9", 0],
    ["high", 0],
    ["", 0],
    [null, 0],
  ] as [string | null, number][])("reads %p as %d", (header, priority) => {
    expect(requestPriority(header)).toBe(priority);
  });
});
