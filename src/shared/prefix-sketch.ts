import type { Reuse } from "../regions/choose-pools.ts";
import { charsOf, PromptBlocks } from "../workers/policies/prompt-blocks.ts";
import type { ChoiceInput, Told } from "../workers/policy.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker } from "../workers/worker.ts";

const CHARS_PER_TOKEN = 4;
/** Slots looked at for one block, and words of a slot: hash, owner, tick. */
const WAYS = 4;
const WORDS = 3;
const BUCKETS = 2 ** 16;
const TICK_MS = 1024;
const TTL_TICKS = (10 * 60_000) / TICK_MS;
/**
 * A beginning that so many pools are known to have is a system prompt in wide use. There is room for four owners of a block: that a pool is
 * not among them says nothing, so all count as having it, and nobody travels for it.
 */
const COMMON = 3;
const MOST_OWNERS = 65_535;
/** Hashes that wait to be told to the others; more are dropped. 256 are 1.4 KB of text a second and pool. */
const MOST_NEWS = 256;
/**
 * Besides its last block a prompt is remembered at these (1, 4 and 12 KB): where system prompts end. A conversation's next turn has the last
 * block of the one before among its own, so that one is enough to know it again.
 */
const MARKS = [3, 15, 23];

/**
 * Which worker of which pool has the beginning of a prompt cached, as far as this router's own requests and the others' reports tell:
 * block hash → owner, in one typed array of 3 MB. Hashes only, never text; 32 bits, so about one lookup in a hundred of a full
 * table finds something that is not there. An estimate may be wrong, an answer never is.
 */
export class PrefixSketch implements Reuse {
  /** Others are told, and tell: then it is worth its cost for a single pool too. */
  readonly sharing: boolean;
  /** Equal in all routers that share, and known to nobody else. */
  readonly seed: number;
  readonly #blocks = new PromptBlocks();
  readonly #owners: { pool: string; worker: string }[] = [];
  readonly #numbers = new Map<string, number>();
  #ofWorker = new WeakMap<Worker, number>();
  readonly #news = new Map<string, Map<string, number[]>>();
  readonly #found = new Map<string, { worker: string; tokens: number }>();
  /** Tokens that everybody has. */
  #common = 0;
  #words: Uint32Array | undefined;
  #read: ChoiceInput | undefined;

  constructor(seed: number, sharing: boolean) {
    this.seed = seed || 1;
    this.sharing = sharing;
  }

  read(input: ChoiceInput, now: number): void {
    this.#hash(input);
    const found = this.#found;
    found.clear();
    this.#common = 0;
    const words = this.#words;
    if (words === undefined) return;
    const tick = tickOf(now);
    const { checks } = this.#blocks;
    for (let block = this.#blocks.count - 1; block >= 0; block--) {
      const hash = checks[block]!;
      const tokens = Math.min(charsOf(block + 1) / CHARS_PER_TOKEN, input.tokens);
      const pools = new Set<string>();
      const start = bucketOf(hash);
      for (let slot = start; slot < start + WAYS * WORDS; slot += WORDS) {
        if (words[slot] !== hash || !fresh(words, slot, tick)) continue;
        const owner = this.#owners[words[slot + 1]! - 1];
        if (owner === undefined) continue;
        pools.add(owner.pool);
        if (!found.has(owner.pool)) found.set(owner.pool, { worker: owner.worker, tokens });
      }
      if (pools.size < COMMON) continue;
      this.#common = tokens;
      return;
    }
  }

  tokensIn(pool: Pool): number {
    return Math.max(this.#common, this.#found.get(pool.topic)?.tokens ?? 0);
  }

  told(pool: Pool): Told | undefined {
    return this.#found.get(pool.topic);
  }

  chosen(worker: Worker, input: ChoiceInput, now: number): void {
    this.#hash(input);
    const { checks, count } = this.#blocks;
    // No prompt stays in memory.
    this.#read = undefined;
    if (count === 0) return;
    const owner = this.#numberOf(worker);
    const tick = tickOf(now);
    for (const mark of MARKS) if (mark < count - 1) this.#note(worker, checks[mark]!, owner, tick);
    this.#note(worker, checks[count - 1]!, owner, tick);
  }

  /** What has been learned of a pool's workers since the last call, for the other routers. */
  news(topic: string): Map<string, number[]> {
    const news = this.#news.get(topic);
    this.#news.delete(topic);
    return news ?? new Map();
  }

  /** Another router has sent prompts with these beginnings to the worker. */
  learn(topic: string, worker: string, hashes: readonly number[], now: number): void {
    const owner = this.#number(topic, worker);
    for (const hash of hashes) this.#place(hash >>> 0, owner, tickOf(now));
  }

  #hash(input: ChoiceInput): void {
    if (this.#read === input) return;
    this.#blocks.read(input.prompt(), this.seed);
    this.#read = input;
  }

  #note(worker: Worker, hash: number, owner: number, tick: number): void {
    if (!this.#place(hash, owner, tick) || !this.sharing) return;
    const topic = topicOf(worker);
    const news = this.#news.get(topic) ?? new Map<string, number[]>();
    this.#news.set(topic, news);
    const known = news.get(worker.name);
    if (known === undefined) news.set(worker.name, [hash]);
    else if (known.length < MOST_NEWS) known.push(hash);
  }

  /** True when it was not there, or had to be renewed before it ends: then it is news to others too. */
  #place(hash: number, owner: number, tick: number): boolean {
    this.#words ??= new Uint32Array(BUCKETS * WAYS * WORDS);
    const words = this.#words;
    const start = bucketOf(hash);
    let victim = start;
    for (let slot = start; slot < start + WAYS * WORDS; slot += WORDS) {
      if (words[slot] === hash && words[slot + 1] === owner) {
        if (tick - words[slot + 2]! < TTL_TICKS / 4) return false;
        victim = slot;
        break;
      }
      // An empty one has tick 0.
      if (words[slot + 2]! < words[victim + 2]!) victim = slot;
    }
    words[victim] = hash;
    words[victim + 1] = owner;
    words[victim + 2] = tick;
    return true;
  }

  #numberOf(worker: Worker): number {
    let number = this.#ofWorker.get(worker);
    if (number === undefined) {
      number = this.#number(topicOf(worker), worker.name);
      this.#ofWorker.set(worker, number);
    }
    return number;
  }

  #number(topic: string, worker: string): number {
    const key = `${topic}\n${worker}`;
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    if (this.#owners.length >= MOST_OWNERS) this.#forgetAll();
    this.#owners.push({ pool: topic, worker });
    this.#numbers.set(key, this.#owners.length);
    return this.#owners.length;
  }

  /** 65,535 names in the life of one process: workers come and go. Starting anew costs a few cold prompts. */
  #forgetAll(): void {
    this.#owners.length = 0;
    this.#numbers.clear();
    this.#ofWorker = new WeakMap();
    this.#words?.fill(0);
  }
}

function topicOf({ model, pool }: Worker): string {
  return `${model}/${pool}`;
}

function tickOf(now: number): number {
  // From 1 on: 0 is an empty slot.
  return Math.floor(now / TICK_MS) + 1;
}

function bucketOf(hash: number): number {
  return ((hash ^ (hash >>> 16)) & (BUCKETS - 1)) * WAYS * WORDS;
}

function fresh(words: Uint32Array, slot: number, tick: number): boolean {
  return words[slot + 2] !== 0 && tick - words[slot + 2]! <= TTL_TICKS;
}
