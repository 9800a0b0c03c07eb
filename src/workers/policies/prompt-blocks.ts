/** The first blocks are short and read whole: that is where system prompts and first questions part. */
const SHORT_BLOCKS = 16;
const SHORT_CHARS = 256;
const SHORT_END = SHORT_BLOCKS * SHORT_CHARS;
/** From 4 KB on, blocks are longer and only two characters in 24 are read. */
const LONG_CHARS = 1024;
const STRIDE = 24;
/** 16 × 256 + 124 × 1,024 = 131,072 characters; what comes after them is not looked at. */
const MOST_BLOCKS = 140;

/**
 * Chained hashes over the blocks of a prompt's text. The hash of a block stands for everything up to its end, so one equal hash means
 * an equal beginning (up to the characters that sampling leaves out: an estimate of cache reuse may be wrong, an answer never is).
 * Blocks lie at fixed places, so a conversation that grows keeps the hashes it had. A last, unfilled block has none.
 *
 * Reading every character of a 64 KB prompt costs about 40 µs; so it costs under 6, and 9 at any length.
 */
export class PromptBlocks {
  /** Two independent 32-bit hashes per block: place and check value in an index. Valid up to `count`, until the next `read`. */
  readonly places = new Uint32Array(MOST_BLOCKS);
  readonly checks = new Uint32Array(MOST_BLOCKS);
  count = 0;

  /** Hashes a text; `seed` makes collisions unpredictable to clients. */
  read(text: string, seed: number): void {
    const { length } = text;
    let hash = seed | 0;
    let check = ~seed;
    let block = 0;
    let at = 0;
    while (block < SHORT_BLOCKS && at + SHORT_CHARS <= length) {
      const end = at + SHORT_CHARS;
      for (; at < end; at += 2) {
        const pair = text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16);
        hash = Math.imul(((hash << 5) | (hash >>> 27)) ^ pair, 0x9e3779b1);
      }
      check = Math.imul(((check << 7) | (check >>> 25)) ^ hash, 0x85ebca6b);
      this.#store(block, hash, check);
      block += 1;
    }
    while (block < MOST_BLOCKS && at + LONG_CHARS <= length) {
      const end = at + LONG_CHARS;
      for (let spot = at; spot < end - 1; spot += STRIDE) {
        const pair = text.charCodeAt(spot) | (text.charCodeAt(spot + 1) << 16);
        hash = Math.imul(((hash << 5) | (hash >>> 27)) ^ pair, 0x9e3779b1);
      }
      at = end;
      check = Math.imul(((check << 7) | (check >>> 25)) ^ hash, 0x85ebca6b);
      this.#store(block, hash, check);
      block += 1;
    }
    this.count = block;
  }

  #store(block: number, hash: number, check: number): void {
    this.places[block] = hash ^ (hash >>> 15);
    this.checks[block] = check ^ (check >>> 13);
  }
}

/** Characters of a prompt covered by its first `blocks` blocks. */
export function charsOf(blocks: number): number {
  return blocks <= SHORT_BLOCKS ? blocks * SHORT_CHARS : SHORT_END + (blocks - SHORT_BLOCKS) * LONG_CHARS;
}
