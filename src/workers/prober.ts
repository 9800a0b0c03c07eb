import type { Clock } from "../runtime/clock.ts";
import type { ProbeResult } from "./health.ts";
import type { Worker } from "./worker.ts";

/**
 * Sends one GET to the worker's base URL + `path` with the worker's own key and nothing of any client, and says how it ended within
 * `timeoutMs`. It reads or cancels the answer's body. It should not reject; if it does, that is an `error`.
 */
export type FetchProbe = (worker: Worker, path: string, timeoutMs: number) => Promise<ProbeResult>;

/** What the prober needs of the fleet. */
export interface ProbeSource {
  due(now: number): Worker[];
}

/** Drives the health checks. The runtime calls `run`: on a timer, or on Workers with a request. It has no timer of its own. */
export class Prober {
  readonly #fleet: ProbeSource;
  readonly #fetchProbe: FetchProbe;
  readonly #clock: Pick<Clock, "now">;
  /** Number of each worker's last probe, for fairness where not all can have their turn at once. */
  readonly #turns = new WeakMap<Worker, number>();
  #turn = 0;

  constructor(fleet: ProbeSource, fetchProbe: FetchProbe, clock: Pick<Clock, "now">) {
    this.#fleet = fleet;
    this.#fetchProbe = fetchProbe;
    this.#clock = clock;
  }

  /**
   * Starts a probe for each worker whose time has come, and returns how many it started with a promise of their end (for `waitUntil`;
   * nobody has to await it, it never rejects). The next `run` need not wait for it: a worker that is being probed is not due.
   */
  run(atMost = Infinity): { started: number; done: Promise<void> } {
    const now = this.#clock.now();
    const due = this.#fleet.due(now);
    if (due.length > atMost) {
      // Those that have waited longest: with short intervals the first of the fleet are due again before the last were asked.
      due.sort((a, b) => (this.#turns.get(a) ?? 0) - (this.#turns.get(b) ?? 0));
      due.length = atMost;
    }
    // No promise for nothing: on Workers this runs with every request.
    if (due.length === 0) return { started: 0, done: NOTHING };
    return { started: due.length, done: Promise.all(due.map((worker) => this.#probe(worker))).then(nothing) };
  }

  async #probe(worker: Worker): Promise<void> {
    this.#turns.set(worker, ++this.#turn);
    const { path, timeoutMs } = worker.health.begin(this.#clock.now());
    let result: ProbeResult;
    try {
      result = await this.#fetchProbe(worker, path, timeoutMs);
    } catch {
      result = { kind: "error" };
    }
    worker.health.report(result, this.#clock.now());
  }
}

const NOTHING = Promise.resolve();

function nothing(): void {}
