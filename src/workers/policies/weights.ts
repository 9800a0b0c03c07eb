import type { Worker } from "../worker.ts";

/** Longest schedule of a weighted round: weights are brought to this many turns at most. */
const MOST_TURNS = 4096;

/**
 * What a list of candidates means for policies that ask for weights alone. Made once per list: a list that has not changed is the
 * same array again. A changed weight makes a new list.
 */
export class WeightPlan {
  readonly candidates: readonly Worker[];
  readonly uniform: boolean;
  /** Running sums of the weights; empty when uniform. */
  readonly sums: Float64Array;

  constructor(candidates: readonly Worker[]) {
    this.candidates = candidates;
    const weight = candidates[0]?.weight;
    this.uniform = candidates.every((worker) => worker.weight === weight);
    this.sums = new Float64Array(this.uniform ? 0 : candidates.length);
    let sum = 0;
    for (let index = 0; index < this.sums.length; index++) {
      sum += candidates[index]!.weight;
      this.sums[index] = sum;
    }
  }

  /** The candidate at `share` (0 ≤ share < 1) of the total weight. */
  at(share: number): Worker | undefined {
    const { candidates, sums } = this;
    if (this.uniform) return candidates[Math.floor(share * candidates.length)];
    const point = share * sums[sums.length - 1]!;
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle]! > point) high = middle;
      else low = middle + 1;
    }
    return candidates[low];
  }

  /**
   * One round in which each candidate has turns by its weight, spread out rather than in a row (smooth weighted round-robin: each
   * turn goes to the one furthest behind). Every candidate has a turn, however light.
   */
  round(): readonly Worker[] {
    const { candidates, uniform } = this;
    if (uniform) return candidates;
    const lightest = Math.min(...candidates.map((worker) => worker.weight));
    const total = this.sums[this.sums.length - 1]!;
    const turns = candidates.map((worker) =>
      Math.max(1, Math.round(Math.min(worker.weight / lightest, (worker.weight / total) * MOST_TURNS))),
    );
    const all = turns.reduce((sum, count) => sum + count, 0);
    const round: { at: number; worker: Worker }[] = [];
    for (const [index, count] of turns.entries()) {
      for (let turn = 0; turn < count; turn++) {
        round.push({ at: ((turn + 0.5) / count) * all, worker: candidates[index]! });
      }
    }
    return round.sort((a, b) => a.at - b.at).map(({ worker }) => worker);
  }
}
