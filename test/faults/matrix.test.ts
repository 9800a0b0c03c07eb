import { expect, test } from "bun:test";
import { allCells, type Cell, nameOf } from "./cells.ts";
import { runCell } from "./run-cell.ts";
import { Stalls } from "./stalls.ts";

/** Bun runs at most 256 outgoing requests at once; each cell has two legs, and silent ones are most of the time. */
const AT_ONCE = 40;
/** A machine that stands still for so long is no judge of limits that are a few hundred milliseconds apart. */
const STALL_MS = 100;
const MOST_TRIES = 4;

/** Only cells whose name holds this text, to look at one of them. */
const only = process.env.FAULTS_ONLY ?? "";

test("whatever goes wrong on either leg, at whatever point, the client sees what the contract allows and nothing is left behind", async () => {
  const cells = allCells().filter((cell) => nameOf(cell).includes(only));
  const stalls = new Stalls();
  const failures: string[] = [];
  const from = performance.now();
  let next = 0;
  let again = 0;

  async function hold(cell: Cell): Promise<void> {
    for (let tried = 1; ; tried++) {
      const begun = performance.now();
      const failure = await runCell(cell);
      if (failure === undefined) return;
      if (tried === MOST_TRIES || stalls.longestSince(begun) < STALL_MS) {
        failures.push(failure);
        return;
      }
      again++;
    }
  }
  async function work(): Promise<void> {
    for (let cell = cells[next++]; cell !== undefined; cell = cells[next++]) await hold(cell);
  }

  await Promise.all(Array.from({ length: AT_ONCE }, work));
  stalls.stop();
  const seconds = ((performance.now() - from) / 1000).toFixed(1);
  console.log(`${cells.length} cells in ${seconds} s; ${again} played again after the machine stood still`);
  expect(failures.slice(0, 40)).toEqual([]);
}, 110_000);
