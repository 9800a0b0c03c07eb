import type { Worker } from "./worker.ts";

/**
 * The workers of one role in one pool, with the list of those that can be chosen kept ready: it is made anew only after something
 * changed, so the cost of a choice does not grow with the number of workers.
 */
export class WorkerSet {
  #members: readonly Worker[] = [];
  #candidates: readonly Worker[] = [];
  #stale = false;
  #validUntil = Infinity;

  get members(): readonly Worker[] {
    return this.#members;
  }

  /**
   * Those a request may go to now: usable, and not asking to be left alone, unless all of the usable ones do. The same array as
   * long as nothing has changed; never to be written to.
   */
  candidates(now: number): readonly Worker[] {
    if (this.#stale || now >= this.#validUntil) this.#refresh(now);
    return this.#candidates;
  }

  /** The same; where there is nobody, those that are worth a try all the same. For requests that nobody else can take. */
  lastResort(now: number): readonly Worker[] {
    const candidates = this.candidates(now);
    return candidates.length > 0 ? candidates : this.#members.filter((worker) => worker.worthATry(now));
  }

  /** Whether a request would find a worker now, were no probe under way. */
  serving(now: number): boolean {
    if (this.candidates(now).length > 0) return true;
    return this.#members.some((worker) => worker.serving(now));
  }

  add(worker: Worker): void {
    worker.onChange = this.#touch;
    this.#members = [...this.#members, worker];
    this.#touch();
  }

  /** True when it was in. Its leases live on. */
  remove(worker: Worker): boolean {
    const members = this.#members.filter((member) => member !== worker);
    if (members.length === this.#members.length) return false;
    this.#members = members;
    worker.onChange = ignore;
    this.#touch();
    return true;
  }

  readonly #touch = (): void => {
    this.#stale = true;
  };

  #refresh(now: number): void {
    const usable: Worker[] = [];
    const willing: Worker[] = [];
    let validUntil = Infinity;
    for (const worker of this.#members) {
      validUntil = Math.min(validUntil, worker.changesAt(now));
      if (!worker.usable(now)) continue;
      usable.push(worker);
      if (now >= worker.avoidUntil) willing.push(worker);
    }
    this.#candidates = willing.length > 0 ? willing : usable;
    this.#validUntil = validUntil;
    this.#stale = false;
  }
}

function ignore(): void {}
