import { expect, test } from "bun:test";
import { verdictOf } from "../../src/dashboard/client/verdict.ts";
import { lateRow, NOW, row, stateWith, worker } from "./hand-made.ts";

const WELL = [worker("p1"), worker("d1")];

test("a fleet that is well and has not failed is good, and says how many workers that rests on", () => {
  const verdict = verdictOf(stateWith(WELL, [row()], [[1, 0, 0, 0, 0, 0]]), NOW);
  expect(verdict).toEqual({
    level: "good",
    title: "Serving",
    findings: [{ level: "good", text: "2 of 2 workers usable, nothing has failed in the last hour" }],
  });
});

test("a model that cannot be served comes first, with the reason", () => {
  const state = stateWith([worker("p1"), worker("d1", { healthy: false, usable: false, sickSince: NOW - 60_000 })]);
  Object.assign(state.models[0]!, { ready: false, reason: "no usable decode worker" });
  const verdict = verdictOf(state, NOW);
  expect(verdict).toMatchObject({ level: "bad", title: "Not serving" });
  expect(verdict.findings).toEqual([
    { level: "bad", text: "m cannot be served: no usable decode worker" },
    { level: "warn", text: "d1 fails its health checks", since: NOW - 60_000 },
  ]);
});

test("one model of two that cannot be served is not the whole router", () => {
  const state = stateWith(WELL);
  state.models.push({ ...state.models[0]!, id: "other", ready: false, reason: "no usable prefill worker" });
  expect(verdictOf(state, NOW)).toMatchObject({ level: "bad", title: "Serving in part" });
});

test("a sick worker is named, with since when", () => {
  const sick = worker("d2", { breaker: "open", usable: false, sickSince: NOW - 5_000 });
  const verdict = verdictOf(stateWith([...WELL, sick]), NOW);
  expect(verdict.level).toBe("warn");
  expect(verdict.findings).toEqual([
    { level: "warn", text: "d2 is left alone after failures in a row", since: NOW - 5_000 },
  ]);
});

test("a draining worker is worth a line and no alarm", () => {
  const verdict = verdictOf(stateWith([...WELL, worker("d2", { draining: true, usable: false, requests: 3 })]), NOW);
  expect(verdict.level).toBe("good");
  expect(verdict.findings[0]!.text).toBe("d2 is draining, 3 requests left");
});

test("failures are told by leg, with the worker that stands out and since when", () => {
  const at = NOW - 90_000;
  const rows = [1, 2, 3].map((key) => lateRow({ key, at: at + key, prefill: key === 3 ? "p2" : "p1" }));
  const minutes = [
    [50, 0, 0, 0, 0, 0],
    [50, 0, 0, 0, 0, 3],
    [50, 0, 0, 0, 0, 0],
  ];
  const verdict = verdictOf(stateWith(WELL, rows, minutes), NOW);
  expect(verdict.level).toBe("warn");
  expect(verdict.findings).toEqual([
    {
      level: "warn",
      text: "3 of 150 requests failed in 5 min (2.0 %): in late prefill, most on p1",
      since: at + 1,
    },
  ]);
});

test("since when reaches back over quiet minutes, to the minute where the trouble began", () => {
  const bad = [10, 0, 1, 0, 0, 0];
  const quiet = [10, 0, 0, 0, 0, 0];
  const state = stateWith(WELL, [], [bad, quiet, quiet, quiet, bad, quiet, bad, bad, quiet]);
  expect(verdictOf(state, NOW).findings[0]!.since).toBe(state.minutes!.from + 55 * 60_000);
});

test("one failure in five is no longer a warning", () => {
  expect(verdictOf(stateWith(WELL, [], [[10, 0, 0, 0, 2, 0]]), NOW).level).toBe("bad");
  expect(verdictOf(stateWith(WELL, [], [[11, 0, 0, 0, 2, 0]]), NOW).level).toBe("warn");
});

test("failures of half an hour ago are history, not trouble", () => {
  const minutes = [[10, 0, 0, 0, 5, 0], ...Array.from({ length: 30 }, () => [10, 0, 0, 0, 0, 0])];
  const verdict = verdictOf(stateWith(WELL, [], minutes), NOW);
  expect(verdict.level).toBe("good");
  expect(verdict.findings[0]!.text).toBe("2 of 2 workers usable, 5 failures in the last hour, none in 5 min");
});

test("a page that hears nothing says so, and does not go on calling it good", () => {
  expect(verdictOf(stateWith(WELL), NOW + 3_000).level).toBe("good");
  const verdict = verdictOf(stateWith(WELL), NOW + 7_000);
  expect(verdict).toMatchObject({ level: "unknown", title: "Connection lost" });
  expect(verdict.findings[0]!.text).toStartWith("No word from the router for 7 s");
});
