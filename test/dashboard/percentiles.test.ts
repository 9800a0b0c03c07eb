import { expect, test } from "bun:test";
import { percentiles } from "../../src/dashboard/client/percentiles.ts";
import { lateRow, row } from "./hand-made.ts";

test("percentiles are values that were measured, of good requests only", () => {
  const rows = Array.from({ length: 100 }, (_, i) => row({ key: i, finished: i + 1, firstToken: 10 }));
  const whole = percentiles([...rows, lateRow({ finished: 99_999 })]).find(({ name }) => name === "Whole request");
  expect(whole).toMatchObject({ of: 100, p50: 50, p90: 90, p99: 99 });
});

test("what was not measured has no number", () => {
  const [firstToken] = percentiles([row({ stream: false })]);
  expect(firstToken).toMatchObject({ of: 0, p50: Number.NaN });
});
