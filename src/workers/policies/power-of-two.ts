import type { ChoiceInput, Policy } from "../policy.ts";
import type { Worker } from "../worker.ts";
import { pressure } from "./pressure.ts";

/** Two different workers at random, of these the one with less in hand. Costs the same for 2 workers and for 1,000. */
export class PowerOfTwo implements Policy {
  readonly name = "power-of-two";
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  choose(candidates: readonly Worker[], input: ChoiceInput): Worker | undefined {
    const count = candidates.length;
    if (count < 2) return candidates[0];
    const first = Math.floor(this.#random() * count);
    // Drawn from the others: the same one twice would be a plain random choice.
    const second = (first + 1 + Math.floor(this.#random() * (count - 1))) % count;
    const a = candidates[first]!;
    const b = candidates[second]!;
    return pressure(b, input.tokens) < pressure(a, input.tokens) ? b : a;
  }
}
