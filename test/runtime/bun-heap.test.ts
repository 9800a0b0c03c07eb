import { expect, test } from "bun:test";
import { crowdWatch } from "../../src/runtime/bun-heap.ts";

function said(...counts: number[]): number[] {
  const leaves = crowdWatch();
  return counts.filter((count) => leaves(count));
}

test("a crowd that has left is told of once, however slowly it went", () => {
  expect(said(0, 400, 1_000, 900, 500, 126, 125, 90, 0, 0, 0)).toEqual([125]);
});

test("so is the next one, and one that comes back half-way is the same", () => {
  expect(said(1_000, 100, 0, 800, 300, 900, 200, 112, 50)).toEqual([100, 112]);
});

test("a few streams that come and go are no crowd", () => {
  expect(said(0, 255, 0, 200, 1, 255, 0)).toEqual([]);
});
