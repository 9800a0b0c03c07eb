import { expect, test } from "bun:test";
import { allCells, type Cell, nameOf } from "./cells.ts";
import { runCell } from "./run-cell.ts";
import { Stalls } from "./stalls.ts";

/** Cells at once, in each pass. Bun runs at most 256 outgoing requests; each cell has two legs, and silence is most of the time. */
const PASSES = [40, 8, 2, 1];
/** Where the process lost so much time during a cell, it cannot tell limits apart that are a few hundred milliseconds long. */
const LOST_MS = 100;
/** No cell takes longer, whatever hangs. */
const LONGEST_MS = 25_000;

/** Only cells whose name holds this text, to look at one of them. */
const only = process.env.FAULTS_ONLY ?? "";

test("whatever goes wrong on either leg, at whatever point, the client sees what the contract allows and nothing is left behind", async () => {
  const cells = allCells().filter((cell) => nameOf(cell).includes(only));
  const stalls = new Stalls();
  const failures: string[] = [];
  const from = performance.now();
  let left = cells;
  let again = 0;
  for (const [pass, atOnce] of PASSES.entries()) {
    const doubtful: Cell[] = [];
    let next = 0;
    async function work(): Promise<void> {
      for (let cell = left[next++]; cell !== undefined; cell = left[next++]) {
        const begun = performance.now();
        const failure = await boundedBy(LONGEST_MS, runCell(cell), `${nameOf(cell)}\n  did not come to its end`);
        if (failure === undefined) continue;
        // A failure is one unless the machine stood still; then the cell is played again, with fewer beside it.
        if (pass + 1 < PASSES.length && stalls.lostSince(begun) > LOST_MS) doubtful.push(cell);
        else failures.push(failure);
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work));
    again += doubtful.length;
    left = doubtful;
  }
  stalls.stop();
  const seconds = ((performance.now() - from) / 1000).toFixed(1);
  console.log(`${cells.length} cells in ${seconds} s; ${again} played again after the machine stood still`);
  expect(failures.slice(0, 40)).toEqual([]);
}, 110_000);

/** What `pending` resolves to, or `otherwise` when that takes longer than `ms`. */
async function boundedBy<T>(ms: number, pending: Promise<T>, otherwise: T): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(resolve, ms, otherwise);
  });
  const first = await Promise.race([pending, late]);
  clearTimeout(timer);
  return first;
}
