import { expect, test } from "bun:test";
import { fuzz } from "./target.ts";
import { targets } from "./targets.ts";

/** `npm run fuzz -- --minutes 30` for longer; a seed that broke something becomes a test of the room it was found in. */
const MS_EACH = 2_000;

test.each(targets.map((target) => [target.name, target] as const))(
  "%s keeps its promises under byte-level fuzzing",
  async (name, target) => {
    // Another place to start on each day; whatever is found is told with its seed.
    const seed = Math.floor(Date.now() / 86_400_000) * 1_000_003;
    const { runs } = await fuzz(target, MS_EACH, seed);
    console.log(`${name}: ${runs} inputs from seed ${seed >>> 0}`);
    expect(runs).toBeGreaterThan(20);
  },
);
