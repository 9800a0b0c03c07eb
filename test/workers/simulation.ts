import type { PolicyName } from "../../src/config/policies.ts";
import { choose } from "../../src/workers/choose.ts";
import type { Lease } from "../../src/workers/lease.ts";
import { createPolicy } from "../../src/workers/policies/create.ts";
import type { ChoiceInput } from "../../src/workers/policy.ts";
import { Pool } from "../../src/workers/pool.ts";
import type { Worker } from "../../src/workers/worker.ts";
import { makeWorker, seeded } from "./fixtures.ts";

// Simulated fleets for the policies' tests and bench/policies.ts: no engine, no time but what the caller says.

export function makePool(workers: number, policy: PolicyName, weight: (index: number) => number = () => 1): Pool {
  const ports = { now: () => 0, random: seeded(42) };
  const own = createPolicy(policy, ports);
  const pool = new Pool("p", "m", "vllm", { cancel: "anytime" }, { prefill: own, decode: own, aggregated: own });
  for (let index = 0; index < workers; index++) {
    pool.set("decode").add(makeWorker(`engine-${index}`, { weight: weight(index) }));
  }
  return pool;
}

export interface Spread {
  counts: number[];
  least: number;
  most: number;
  mostToMean: number;
  /** Standard deviation over the mean. */
  deviation: number;
  /** Most requests one worker had at once. */
  peak: number;
  /** Most workers without a request while the fleet had all its requests. */
  idle: number;
}

interface SpreadOptions {
  workers: number;
  requests: number;
  /** Requests in hand at any time; each ends after a random one of the later ones has begun. */
  concurrent: number;
  /** Session of a request; its own by default. */
  session?: (request: number) => string;
  weight?: (index: number) => number;
}

/** Sends requests of mixed size and duration through a policy and says who got how many. */
export function spread(policy: PolicyName, options: SpreadOptions): Spread {
  const pool = makePool(options.workers, policy, options.weight);
  const random = seeded(9);
  const counts = new Map<Worker, number>(pool.decode.map((worker) => [worker, 0]));
  const held: Lease[] = [];
  let peak = 0;
  let idle = 0;
  for (let request = 0; request < options.requests; request++) {
    const session = options.session?.(request) ?? `session-${request}`;
    const text = `${session} ${"word ".repeat(Math.floor(100 + 400 * random()))}`;
    const input: ChoiceInput = { tokens: text.length / 4, prompt: () => text, session: () => session };
    const lease = choose(pool, "decode", input, { now: request })!;
    counts.set(lease.worker, counts.get(lease.worker)! + 1);
    peak = Math.max(peak, lease.worker.load.requests);
    held.push(lease);
    if (held.length >= options.concurrent) {
      if (request % 16 === 0) idle = Math.max(idle, pool.decode.filter((worker) => worker.load.requests === 0).length);
      const ended = Math.floor(random() * held.length);
      held[ended]!.release();
      held[ended] = held[held.length - 1]!;
      held.pop();
    }
  }
  for (const lease of held) lease.release();
  const values = [...counts.values()];
  const mean = options.requests / options.workers;
  const variance = values.reduce((sum, count) => sum + (count - mean) ** 2, 0) / values.length;
  return {
    counts: values,
    least: Math.min(...values),
    most: Math.max(...values),
    mostToMean: Math.max(...values) / mean,
    deviation: Math.sqrt(variance) / mean,
    peak,
    idle,
  };
}

export interface Turn {
  session: string;
  prompt: string;
}

interface TraceOptions {
  count: number;
  turns: number;
  /** Different system prompts, of 2,000 to 6,000 characters. */
  systems: number;
  seed: number;
}

/** Conversations whose turns come in a random order between each other, each turn repeating all before it. */
export function conversations({ count, turns, systems, seed }: TraceOptions): Turn[] {
  const random = seeded(seed);
  const words = (length: number) => {
    let text = "";
    while (text.length < length) text += `${Math.floor(random() * 46_656).toString(36)} `;
    return text;
  };
  const openings = Array.from({ length: systems }, () => words(2000 + 4000 * random()));
  const texts = Array.from({ length: count }, (_, n) => openings[n % systems]!);
  const left = texts.map(() => turns);
  const trace: Turn[] = [];
  // A window of live conversations: people come and go, not all talk at once.
  let first = 0;
  while (first < count) {
    const pick = first + Math.floor(random() * Math.min(64, count - first));
    if (left[pick]! > 0) {
      left[pick]! -= 1;
      texts[pick]! += words(300 + 1500 * random());
      trace.push({ session: `c${pick}`, prompt: texts[pick]! });
    }
    while (first < count && left[first] === 0) first += 1;
  }
  return trace;
}

export interface Replay {
  /** Share of all prompt characters found in the chosen worker's cache. */
  reuse: number;
  /** Requests of the busiest worker against the mean. */
  requests: number;
  /** Characters computed by the busiest worker against the mean. */
  computed: number;
}

/** Cache blocks of the simulated engines, in characters: 16 tokens. */
const BLOCK = 64;

/** Plays a trace against workers with real prefix caches (LRU over blocks, exact text), which the policy knows nothing of. */
export function replay(
  policy: PolicyName,
  trace: readonly Turn[],
  options: { workers: number; cacheChars: number },
): Replay {
  const pool = makePool(options.workers, policy);
  const caches = new Map(pool.decode.map((worker) => [worker, new Cache(options.cacheChars)]));
  const done = new Map(pool.decode.map((worker) => [worker, { requests: 0, computed: 0 }]));
  const random = seeded(3);
  const held: Lease[] = [];
  let reused = 0;
  let total = 0;
  for (const [index, { session, prompt }] of trace.entries()) {
    const input: ChoiceInput = { tokens: prompt.length / 4, prompt: () => prompt, session: () => session };
    const lease = choose(pool, "decode", input, { now: index * 20 })!;
    const hit = caches.get(lease.worker)!.touch(prompt);
    reused += hit;
    total += prompt.length;
    const tally = done.get(lease.worker)!;
    tally.requests += 1;
    tally.computed += prompt.length - hit;
    held.push(lease);
    if (held.length > 2 * options.workers) held.splice(Math.floor(random() * held.length), 1)[0]!.release();
  }
  const tallies = [...done.values()];
  const share = (pick: (tally: { requests: number; computed: number }) => number) =>
    (Math.max(...tallies.map(pick)) * tallies.length) / tallies.reduce((sum, tally) => sum + pick(tally), 0);
  return { reuse: reused / total, requests: share((t) => t.requests), computed: share((t) => t.computed) };
}

/** An engine's prefix cache: blocks by the text up to their end, the least recently used leave first. */
class Cache {
  readonly #blocks = new Map<number, true>();
  readonly #most: number;

  constructor(chars: number) {
    this.#most = chars / BLOCK;
  }

  /** Characters of the prompt that were there; afterwards all of it is. */
  touch(prompt: string): number {
    let hash = 17;
    let hit = 0;
    let whole = true;
    for (let at = 0; at + BLOCK <= prompt.length; at += BLOCK) {
      for (let index = at; index < at + BLOCK; index++) {
        // Below 2^45 × 131 + 2^16 < 2^53, so every product is exact.
        hash = (hash * 131 + prompt.charCodeAt(index)) % 35184372088777;
      }
      if (this.#blocks.delete(hash)) {
        if (whole) hit += BLOCK;
      } else whole = false;
      this.#blocks.set(hash, true);
    }
    while (this.#blocks.size > this.#most) this.#blocks.delete(this.#blocks.keys().next().value!);
    return hit;
  }
}
