import type { Policy } from "../policy.ts";
import type { Worker } from "../worker.ts";
import { WeightPlan } from "./weights.ts";

/** One after the other; a worker of twice the weight has two turns. Load is not looked at. */
export class RoundRobin implements Policy {
  readonly name = "round-robin";
  #candidates: readonly Worker[] = [];
  #round: readonly Worker[] = [];
  #turn = 0;

  choose(candidates: readonly Worker[]): Worker | undefined {
    if (candidates !== this.#candidates) {
      this.#candidates = candidates;
      this.#round = new WeightPlan(candidates).round();
    }
    const { length } = this.#round;
    if (length === 0) return undefined;
    // The count goes on when the list changes: starting over would favour whoever comes first in it each time a worker flaps.
    const worker = this.#round[this.#turn % length];
    this.#turn = (this.#turn + 1) % Number.MAX_SAFE_INTEGER;
    return worker;
  }
}
