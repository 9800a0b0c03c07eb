import { REGIONS } from "./places.ts";
import type { Turn } from "./workload.ts";
import type { World } from "./world.ts";

/** Figures of a stretch of time are taken together. */
export const BUCKET_MS = 5_000;

export interface Summary {
  policy: string;
  requests: number;
  lost: number;
  /** Streams that were open when their region died. */
  broken: number;
  retries: number;
  meanMs: number;
  /** Of the mean: on the way (two round trips), and waiting for prefill; the rest is computing. */
  networkMs: number;
  waitMs: number;
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  /** Of all prompt tokens, those found in the cache of the worker they were sent to. */
  reuse: number;
  /** Requests that did not go to the region nearest to their point of presence. */
  spill: number;
  /** Tokens computed by the busiest prefill worker, and by the busiest region's, against the mean. */
  workerImbalance: number;
  regionImbalance: number;
  /** Backlog of prefill workers, sampled once a second: the mean, and the longest of all in the 99th of 100 samples. */
  backlogMs: number;
  backlogP99Ms: number;
  /** How much regions' shares of requests change from one stretch of five seconds to the next, summed over regions, on average. */
  swing: number;
  /** Per router and second. */
  storeMessages: number;
  storeBytes: number;
}

/** What is seen of one run. */
export class Figures {
  readonly policy: string;
  readonly ttft: number[] = [];
  /** Time to first token by stretch of time. */
  readonly buckets: number[][] = [];
  /** Requests by stretch of time and region. */
  readonly regions: number[][] = [];
  readonly #world: World;
  #startedAt = Number.POSITIVE_INFINITY;
  #lost = 0;
  #broken = 0;
  #retries = 0;
  #prompt = 0;
  #cached = 0;
  #spilled = 0;
  #backlogSum = 0;
  #waited = 0;
  #travelled = 0;
  #taken = 0;
  readonly #backlogMost: number[] = [];
  #computedBefore: number[] = [];
  #storeBefore = { messages: 0, bytes: 0 };
  summary: Summary | undefined;

  constructor(policy: string, world: World) {
    this.policy = policy;
    this.#world = world;
  }

  begin(store: { messages: number; bytes: number }): void {
    this.#startedAt = this.#world.agenda.now;
    this.#computedBefore = this.#engines().map(({ computed }) => computed);
    this.#storeBefore = { ...store };
  }

  firstToken(turn: Turn, region: number, ms: number): void {
    const bucket = this.#bucket();
    if (bucket < 0) return;
    this.ttft.push(ms);
    this.buckets[bucket] ??= [];
    this.buckets[bucket]!.push(ms);
    if (this.#world.nearest(turn.pop, () => true) !== region) this.#spilled += 1;
  }

  prefilled(turn: Turn, cached: number, region: number, waitMs: number): void {
    const bucket = this.#bucket();
    if (bucket < 0) return;
    this.#waited += waitMs;
    this.#travelled += 2 * this.#world.meanRtt(turn.pop, region);
    this.#taken += 1;
    this.#prompt += turn.promptTokens;
    this.#cached += cached;
    this.regions[bucket] ??= REGIONS.map(() => 0);
    this.regions[bucket]![region]! += 1;
  }

  lost(_turn: Turn): void {
    if (this.#bucket() >= 0) this.#lost += 1;
  }

  broken(): void {
    if (this.#bucket() >= 0) this.#broken += 1;
  }

  retried(): void {
    if (this.#bucket() >= 0) this.#retries += 1;
  }

  /** Once a second. */
  sample(): void {
    const { now } = this.#world.agenda;
    const engines = this.#engines();
    let most = 0;
    let sum = 0;
    for (const { busyUntil } of engines) {
      const ms = Math.max(0, busyUntil - now);
      sum += ms;
      most = Math.max(most, ms);
    }
    this.#backlogSum += sum / engines.length;
    this.#backlogMost.push(most);
  }

  end(store: { messages: number; bytes: number }, lengthMs: number): void {
    const sorted = Float64Array.from(this.ttft).sort();
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
    const computed = this.#engines().map(({ computed: tokens }, index) => tokens - this.#computedBefore[index]!);
    const byRegion = this.#world.prefill.map((engines) => engines.length);
    let offset = 0;
    const regions = byRegion.map((count) => {
      const sum = computed.slice(offset, offset + count).reduce((total, tokens) => total + tokens, 0);
      offset += count;
      return sum / count;
    });
    const routerSeconds = (50 * lengthMs) / 1_000;
    const most = Float64Array.from(this.#backlogMost).sort();
    this.summary = {
      policy: this.policy,
      requests: this.ttft.length,
      lost: this.#lost,
      broken: this.#broken,
      retries: this.#retries,
      meanMs: mean(this.ttft),
      networkMs: this.#travelled / this.#taken,
      waitMs: this.#waited / this.#taken,
      p50: at(0.5),
      p90: at(0.9),
      p99: at(0.99),
      p999: at(0.999),
      reuse: this.#cached / this.#prompt,
      spill: this.#spilled / this.ttft.length,
      workerImbalance: Math.max(...computed) / mean(computed),
      regionImbalance: Math.max(...regions) / mean(regions),
      backlogMs: this.#backlogSum / this.#backlogMost.length,
      backlogP99Ms: most[Math.floor(0.99 * most.length)] ?? 0,
      swing: swing(this.regions),
      storeMessages: (store.messages - this.#storeBefore.messages) / routerSeconds,
      storeBytes: (store.bytes - this.#storeBefore.bytes) / routerSeconds,
    };
  }

  #bucket(): number {
    return Math.floor((this.#world.agenda.now - this.#startedAt) / BUCKET_MS);
  }

  #engines() {
    return this.#world.prefill.flat();
  }
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function swing(regions: readonly (readonly number[])[]): number {
  let sum = 0;
  for (let bucket = 1; bucket < regions.length; bucket++) {
    const [a, b] = [shares(regions[bucket - 1] ?? []), shares(regions[bucket] ?? [])];
    for (const [index, share] of a.entries()) sum += Math.abs(share - (b[index] ?? 0));
  }
  return sum / Math.max(1, regions.length - 1);
}

function shares(counts: readonly number[]): number[] {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return counts.map((count) => count / total);
}
