import { mutate, Random } from "./mutate.ts";

/** One piece of code under fuzzing: what it starts from, and what must hold whatever comes of it. */
export interface Target {
  name: string;
  seeds: readonly Uint8Array[];
  /** Words that mean something to the code. */
  words: readonly Uint8Array[];
  /** Throws when a promise is broken. `random` is for further choices (cuts, edits), repeatable with the input. */
  run(input: Uint8Array, random: Random): void | Promise<void>;
}

export interface Fuzzed {
  runs: number;
  seed: number;
}

/** Tells how to see it again: `npm run fuzz -- --target NAME --seed N` runs that one input. */
export class Found extends Error {
  override readonly name = "Found";

  constructor(target: string, seed: number, input: Uint8Array, cause: unknown) {
    const shown = input.length > 600 ? `${input.length} bytes` : JSON.stringify(Buffer.from(input).toString("latin1"));
    super(
      `${target} broke: npm run fuzz -- --target ${target} --seed ${seed}; input (latin1) ${shown}\n${cause instanceof Error ? cause.stack : cause}`,
    );
  }
}

/** Runs a target for `ms`, from a seed on: each input has the next number as its own seed. Throws `Found`. */
export async function fuzz(target: Target, ms: number, seed: number): Promise<Fuzzed> {
  const end = performance.now() + ms;
  let runs = 0;
  do {
    await runOne(target, seed + runs);
    runs++;
  } while (performance.now() < end);
  return { runs, seed };
}

export async function runOne(target: Target, seed: number): Promise<void> {
  const random = new Random(seed);
  const input = mutate(random, target.seeds, target.words);
  try {
    await target.run(input, random);
  } catch (error) {
    throw new Found(target.name, seed, input, error);
  }
}

export function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}
