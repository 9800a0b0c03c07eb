import { type Axis, childrenOf, type Family, head, labelsOf, sample } from "./registry.ts";

/** Bucket bounds in seconds. Prefill of long prompts takes tens of seconds, so first tokens are told apart up to five minutes. */
export const BOUNDS = {
  firstToken: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 7, 10, 15, 20, 30, 60, 120, 300],
  betweenTokens: [
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5,
  ],
  request: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800],
  handoff: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 20],
  wait: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30],
} as const;

/**
 * A histogram with all its children in one array: per child the count of each bucket, then of those above, then the sum.
 * The scan for the bucket is linear on purpose: 16 bounds in one cache line or two are over before a binary search has branched twice.
 */
export class Histogram implements Family {
  readonly name: string;
  readonly #help: string;
  readonly #axes: readonly Axis[];
  readonly #bounds: Float64Array;
  readonly #stride: number;
  readonly #cells: Float64Array;

  /** `bounds`: upper bounds in seconds, ascending; +Inf is implied. */
  constructor(name: string, help: string, bounds: readonly number[], axes: readonly Axis[] = []) {
    this.name = name;
    this.#help = help;
    this.#axes = axes;
    this.#bounds = Float64Array.from(bounds);
    this.#stride = bounds.length + 2;
    this.#cells = new Float64Array(childrenOf(axes) * this.#stride);
  }

  /** One observation in seconds (never negative: a negative one would make the sum fall, which a scrape reads as a restart). */
  observe(child: number, seconds: number): void {
    if (!(seconds >= 0)) return;
    const bounds = this.#bounds;
    let i = 0;
    while (i < bounds.length && seconds > bounds[i]!) i++;
    const base = child * this.#stride;
    this.#cells[base + i]! += 1;
    this.#cells[base + this.#stride - 1]! += seconds;
  }

  render(out: string[]): void {
    head(out, this.name, this.#help, "histogram");
    const children = this.#cells.length / this.#stride;
    for (let child = 0; child < children; child++) this.#renderChild(out, child);
  }

  #renderChild(out: string[], child: number): void {
    const base = child * this.#stride;
    let total = 0;
    for (let i = 0; i <= this.#bounds.length; i++) total += this.#cells[base + i]!;
    if (total === 0 && this.#axes.length > 0) return;
    const labels = labelsOf(this.#axes, child);
    const prefix = labels === "" ? "" : `${labels},`;
    let cumulative = 0;
    for (let i = 0; i < this.#bounds.length; i++) {
      cumulative += this.#cells[base + i]!;
      out.push(sample(`${this.name}_bucket`, `${prefix}le="${this.#bounds[i]}"`, cumulative));
    }
    out.push(sample(`${this.name}_bucket`, `${prefix}le="+Inf"`, total));
    out.push(sample(`${this.name}_sum`, labels, this.#cells[base + this.#stride - 1]!));
    out.push(sample(`${this.name}_count`, labels, total));
  }
}
