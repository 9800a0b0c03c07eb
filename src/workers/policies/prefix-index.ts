import { charsOf, type PromptBlocks } from "./prompt-blocks.ts";

/** Entries per bucket: all that is looked at for one block. */
const WAYS = 8;
/**
 * A bucket is 32 words in a row, field by field: 8 checks, 8 ticks, 8 volumes, 8 owners. A lookup that finds nothing touches one
 * line of the processor's cache; with an array per field a large table cost twice as much.
 */
const BUCKET_WORDS = 32;
const TICK = 8;
const VOLUME = 16;
const OWNER = 24;
/** Owners remembered per block, the latest: a system prompt that everybody has must not push other blocks out of its bucket. */
const MOST_OWNERS = 4;
/** One tick of the entries' age: fine enough to order them, coarse enough that 32 bits last for years. */
const TICK_MS = 64;

/** Owners found for a prompt, deepest first. */
export interface Holders {
  count: number;
  readonly owners: Uint16Array;
  /** Characters of the prompt that the owner is expected to have. */
  readonly chars: Float64Array;
}

/**
 * Which worker has seen which block: a set-associative table of (block, owner) pairs in one typed array. It holds numbers only, never
 * text; 16 bytes a pair (check, tick, volume, owner), all of it allocated at once. When a bucket is full its oldest entry goes. One table serves all workers of a pool, so a lookup costs the same for 8 and for 1,000.
 *
 * An entry ends in two ways that need no sweep: after `ttlMs` without use, and when its owner has since been sent more new text than
 * its cache could hold (`ownerChars`): the engine will have evicted the block.
 */
export class PrefixIndex {
  readonly #mask: number;
  readonly #words: Uint32Array;
  /** New characters sent to each owner so far, modulo 2^32: the clock by which its cache ages. */
  readonly #sent = new Uint32Array(65_536);
  readonly #ownerChars: number;
  readonly #ttlTicks: number;
  readonly holders: Holders = {
    count: 0,
    owners: new Uint16Array(MOST_OWNERS),
    chars: new Float64Array(MOST_OWNERS),
  };

  /** `pairs` is rounded up to a power of two. */
  constructor(pairs: number, ownerChars: number, ttlMs: number) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(pairs, WAYS)));
    this.#mask = size / WAYS - 1;
    this.#words = new Uint32Array((size / WAYS) * BUCKET_WORDS);
    this.#ownerChars = ownerChars;
    this.#ttlTicks = Math.ceil(ttlMs / TICK_MS);
  }

  /** Bytes of the table. */
  get bytes(): number {
    return this.#words.byteLength + this.#sent.byteLength;
  }

  /**
   * Fills `holders` with the owners that have the most of the prompt. A block's hash stands for all before it, so the search goes
   * from the last block to the first and ends when enough owners are found.
   */
  find(blocks: PromptBlocks, now: number): Holders {
    const { holders } = this;
    const words = this.#words;
    const tick = Math.floor(now / TICK_MS);
    let found = 0;
    for (let block = blocks.count - 1; block >= 0 && found < MOST_OWNERS; block--) {
      const check = blocks.checks[block]!;
      const bucket = (blocks.places[block]! & this.#mask) * BUCKET_WORDS;
      for (let slot = bucket; slot < bucket + WAYS && found < MOST_OWNERS; slot++) {
        if (words[slot] !== check || !this.#fresh(slot, tick)) continue;
        const owner = words[slot + OWNER]!;
        if (has(holders.owners, found, owner)) continue;
        holders.owners[found] = owner;
        holders.chars[found] = charsOf(block + 1);
        found += 1;
      }
    }
    holders.count = found;
    return holders;
  }

  /** The owner (1 … 65535) gets this prompt: its blocks are there from now on. Returns the characters it had already. */
  remember(owner: number, blocks: PromptBlocks, now: number): number {
    const tick = Math.floor(now / TICK_MS);
    let known = 0;
    let before = 0;
    for (let block = 0; block < blocks.count; block++) {
      const end = charsOf(block + 1);
      const slot = this.#place(owner, blocks.places[block]!, blocks.checks[block]!, tick);
      if (slot < 0) known = end;
      else this.#sent[owner] = this.#sent[owner]! + (end - before);
      before = end;
    }
    return known;
  }

  /** Everything this owner had is gone; its number may be given to another. */
  forget(owner: number): void {
    this.#sent[owner] = this.#sent[owner]! + this.#ownerChars + 1;
  }

  /** Writes one pair. Returns -1 when a fresh one was there, else the slot that was taken. */
  #place(owner: number, place: number, check: number, tick: number): number {
    const words = this.#words;
    const bucket = (place & this.#mask) * BUCKET_WORDS;
    let victim = -1;
    let oldest = -1;
    let sharers = 0;
    let oldestSharer = -1;
    for (let slot = bucket; slot < bucket + WAYS; slot++) {
      const fresh = this.#fresh(slot, tick);
      if (!fresh) {
        if (victim < 0) victim = slot;
        continue;
      }
      if (words[slot] === check) {
        if (words[slot + OWNER] === owner) {
          words[slot + TICK] = tick;
          words[slot + VOLUME] = this.#sent[owner]!;
          return -1;
        }
        sharers += 1;
        if (oldestSharer < 0 || words[slot + TICK]! < words[oldestSharer + TICK]!) oldestSharer = slot;
      }
      if (oldest < 0 || words[slot + TICK]! < words[oldest + TICK]!) oldest = slot;
    }
    const slot = sharers >= MOST_OWNERS ? oldestSharer : victim >= 0 ? victim : oldest;
    words[slot] = check;
    words[slot + OWNER] = owner;
    words[slot + TICK] = tick;
    words[slot + VOLUME] = this.#sent[owner]!;
    return slot;
  }

  #fresh(slot: number, tick: number): boolean {
    const words = this.#words;
    const owner = words[slot + OWNER]!;
    if (owner === 0 || tick - words[slot + TICK]! > this.#ttlTicks) return false;
    return (this.#sent[owner]! - words[slot + VOLUME]!) >>> 0 <= this.#ownerChars;
  }
}

function has(owners: Uint16Array, count: number, owner: number): boolean {
  for (let index = 0; index < count; index++) if (owners[index] === owner) return true;
  return false;
}
