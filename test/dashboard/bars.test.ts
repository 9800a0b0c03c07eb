import { expect, test } from "bun:test";
import { barsOf, scaleOf } from "../../src/dashboard/client/bars.ts";
import { lateRow, row } from "./hand-made.ts";

test("both legs sent at once: decode waits while prefill works, and the hand-off is where prefill is done", () => {
  expect(barsOf(row(), 0)).toEqual({
    prefill: [{ kind: "work", from: 1, to: 100 }],
    decode: [
      { kind: "wait", from: 1, to: 110 },
      { kind: "work", from: 110, to: 600 },
    ],
    handoff: 100,
    broken: undefined,
    end: 600,
  });
});

test("one leg after the other: the hand-off is where decode was sent", () => {
  expect(barsOf(row({ decodeSent: 104 }), 0).handoff).toBe(104);
});

test("a tail that outlives the response is drawn beyond its end", () => {
  const bars = barsOf(row({ prefillDone: 900, tailEnded: 900 }), 0);
  expect(bars.prefill).toEqual([
    { kind: "work", from: 1, to: 600 },
    { kind: "tail", from: 600, to: 900 },
  ]);
  expect(bars.end).toBe(900);
});

test("a tail that is still open grows with time", () => {
  const open = row({ tailOpen: true, prefillDone: undefined });
  expect(barsOf(open, 750).prefill[1]).toEqual({ kind: "tail", from: 600, to: 750 });
});

test("a running request grows with time, and waits until there is a first token", () => {
  const running = row({ finished: undefined, firstToken: undefined, prefillDone: undefined, outcome: "" });
  const bars = barsOf(running, 80);
  expect(bars.prefill).toEqual([{ kind: "work", from: 1, to: 80 }]);
  expect(bars.decode).toEqual([{ kind: "wait", from: 1, to: 80 }]);
  expect(bars.handoff).toBeUndefined();
});

test("a late failure stands on the prefill lane where the tail broke, and decode had its hand-off before", () => {
  const bars = barsOf(lateRow(), 0);
  expect(bars.broken).toEqual({ lane: "prefill", at: 300, late: true });
  expect(bars.handoff).toBe(110);
});

test("a failure stands on the lane of the leg that failed", () => {
  expect(barsOf(row({ failed: "decode" }), 0).broken).toEqual({ lane: "decode", at: 600, late: false });
  expect(barsOf(row({ failed: "prefill" }), 0).broken).toEqual({ lane: "prefill", at: 600, late: false });
  expect(barsOf(row({ failed: "router" }), 0).broken).toEqual({ lane: "both", at: 600, late: false });
});

test("a decode that refused had no hand-off, although prefill's leg has an end", () => {
  const refused = row({ failed: "decode", firstToken: undefined, prefillDone: 4, decodeSent: 1, finished: 4 });
  expect(barsOf(refused, 0).handoff).toBeUndefined();
});

test("an aggregated request has one lane and no hand-off", () => {
  const bars = barsOf(row({ prefill: "", prefillSent: undefined, prefillDone: undefined, path: "aggregated" }), 0);
  expect(bars.prefill).toEqual([]);
  expect(bars.handoff).toBeUndefined();
});

test("the scale is a round number, and one request that hung does not press the others flat", () => {
  expect(scaleOf([])).toBe(1_000);
  expect(scaleOf([430, 700])).toBe(800);
  expect(scaleOf([...new Array<number>(99).fill(500), 60_000])).toBe(800);
});
