import { expect, test } from "bun:test";
import fc from "fast-check";
import { plans } from "./plans.ts";
import { playPlan } from "./play-plan.ts";

/** `FAULTS_RUNS=100000 bun test test/faults/interleavings.test.ts` for a night's worth; a failure prints its seed. */
const runs = Number(process.env.FAULTS_RUNS ?? 2_000);

test(
  "however the bytes of both legs are cut and delayed, and whenever the client leaves, it sees what the contract allows and nothing is left behind",
  async () => {
    const from = performance.now();
    await fc.assert(fc.asyncProperty(plans, playPlan), { numRuns: runs });
    console.log(`${runs} runs in ${((performance.now() - from) / 1000).toFixed(1)} s`);
    expect(runs).toBeGreaterThan(0);
  },
  30_000 + runs * 40,
);
