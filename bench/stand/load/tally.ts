import { type LoadPlan, type LoadResult, type Moment, quantilesOf } from "../protocol.ts";

/** What all clients saw. */
export class Tally {
  readonly plan: LoadPlan;
  readonly started = performance.now();
  readonly #cpu = process.cpuUsage();
  readonly firstUs: number[] = [];
  readonly wholeUs: number[] = [];
  readonly scrapeUs: number[] = [];
  readonly frames: Moment[] = [];
  readonly statuses: Moment[] = [];
  readonly hangUps: Moment[] = [];
  readonly failures: Record<string, number> = {};
  readonly otherEnds: Record<string, number> = {};
  issued = 0;
  /** Numbers of marks, over all kinds. */
  numbered = 0;
  requests = 0;
  events = 0;
  bytes = 0;
  dials = 0;
  errors = 0;
  openStreams = 0;

  constructor(plan: LoadPlan) {
    this.plan = plan;
  }

  fail(why: string): void {
    this.errors++;
    this.failures[why] = (this.failures[why] ?? 0) + 1;
  }

  end(how: string): void {
    this.otherEnds[how] = (this.otherEnds[how] ?? 0) + 1;
  }

  /** No more requests are to be sent. */
  get over(): boolean {
    const { requests, durationMs, rampMs } = this.plan;
    return (requests > 0 && this.issued >= requests) || performance.now() - this.started > durationMs + rampMs;
  }

  result(): LoadResult {
    const { user, system } = process.cpuUsage(this.#cpu);
    return {
      seconds: (performance.now() - this.started) / 1000,
      requests: this.requests,
      events: this.events,
      bytes: this.bytes,
      dials: this.dials,
      errors: this.errors,
      failures: this.failures,
      firstUs: quantilesOf(this.firstUs),
      wholeUs: quantilesOf(this.wholeUs),
      scrapeUs: quantilesOf(this.scrapeUs),
      scrapes: this.scrapeUs.length,
      frames: this.frames,
      statuses: this.statuses,
      hangUps: this.hangUps,
      otherEnds: this.otherEnds,
      openStreams: this.openStreams,
      cpuSeconds: (user + system) / 1e6,
    };
  }
}
