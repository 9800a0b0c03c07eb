import type { PoolConfig, WorkerConfig } from "../../src/config/schema.ts";
import type { Clock } from "../../src/runtime/clock.ts";
import { Fleet, type FleetConfig, type FleetOptions } from "../../src/workers/fleet.ts";
import type { ChoiceInput } from "../../src/workers/policy.ts";
import { Worker, type WorkerOptions } from "../../src/workers/worker.ts";

export const breakerConfig = { failures: 3, openMs: 1000, enabled: true };
export const healthConfig = { intervalMs: 5000, timeoutMs: 2000, failures: 2, successes: 1 };

export function makeWorker(name: string, options: Partial<WorkerOptions> = {}): Worker {
  return new Worker({
    name,
    role: "decode",
    url: `http://${name}:8000`,
    model: "m",
    pool: "default",
    engine: "vllm",
    weight: 1,
    apiKey: undefined,
    target: { bootstrapHost: name, bootstrapPort: 8998, dpSize: 1 },
    breaker: breakerConfig,
    health: healthConfig,
    ...options,
  });
}

export function makeWorkers(count: number, options: Partial<WorkerOptions> = {}): Worker[] {
  return Array.from({ length: count }, (_, index) => makeWorker(`w${index}`, options));
}

export function makeInput(prompt = "", session = prompt): ChoiceInput {
  return { tokens: prompt.length / 4, prompt: () => prompt, session: () => session };
}

export function workerConfig(name: string, more: Partial<WorkerConfig> = {}): WorkerConfig {
  return {
    name,
    url: `http://${name}:8000`,
    weight: 1,
    bootstrapHost: name,
    bootstrapPort: 8998,
    dpSize: 1,
    kvPort: 5600,
    tpSize: 1,
    ppSize: 1,
    ...more,
  };
}

export function poolConfig(name: string, more: Partial<PoolConfig> = {}): PoolConfig {
  return { name, engine: "sglang", cancel: "anytime", prefill: [], decode: [], workers: [], ...more };
}

/** One model "m" with one pool: prefill p1, p2 and decode d1, d2. */
export function fleetConfig(more: Partial<FleetConfig> = {}): FleetConfig {
  const pool = poolConfig("default", {
    prefill: [workerConfig("p1"), workerConfig("p2")],
    decode: [workerConfig("d1"), workerConfig("d2")],
  });
  return {
    models: [{ id: "m", aliases: [], adapters: [], pools: [pool] }],
    policy: { prefill: "least-load", decode: "least-load" },
    breaker: breakerConfig,
    health: healthConfig,
    ...more,
  };
}

export function makeFleet(config = fleetConfig(), options: Partial<FleetOptions> = {}): Fleet {
  return new Fleet(config, new Map(), { now: () => 0, random: seeded(1), ...options });
}

/** Uniform numbers that are the same in every run (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A clock that stands still until it is moved; due calls are made in their order. */
export class HandClock implements Clock {
  #now = 0;
  #due: { at: number; call: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(ms: number, call: () => void): () => void {
    const entry = { at: this.#now + ms, call };
    this.#due.push(entry);
    return () => {
      this.#due = this.#due.filter((other) => other !== entry);
    };
  }

  /** Timers that are set. */
  get pending(): number {
    return this.#due.length;
  }

  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const next = this.#due.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#now = next.at;
      this.#due = this.#due.filter((entry) => entry !== next);
      next.call();
    }
    this.#now = until;
  }
}
