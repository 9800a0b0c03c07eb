import type { Policy } from "../policy.ts";
import type { Worker } from "../worker.ts";
import { WeightPlan } from "./weights.ts";

/** At random, by weight. */
export class RandomChoice implements Policy {
  readonly name = "random";
  readonly #random: () => number;
  #plan = new WeightPlan([]);

  constructor(random: () => number) {
    this.#random = random;
  }

  choose(candidates: readonly Worker[]): Worker | undefined {
    if (candidates.length < 2) return candidates[0];
    if (candidates !== this.#plan.candidates) this.#plan = new WeightPlan(candidates);
    return this.#plan.at(this.#random());
  }
}
