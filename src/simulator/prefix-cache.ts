import type { Prompt } from "./prompt.ts";
import { hashText } from "./vocabulary.ts";

/** Characters per cached block; about 64 tokens. */
const blockLength = 192;
const maxBlocks = 65_536;
/** Longer prompts are cached by their first part alone: hashing is the simulator's cost, not the engine's. */
const maxCachedLength = 1_048_576;

/** Which prompt prefixes an engine still holds: makes `cached_tokens` and the prefill time depend on routing, as in life. */
export class PrefixCache {
  readonly #blocks = new Set<string>();

  /** Tokens of this prompt that are held already; takes the rest in. The last token is always computed. */
  admit(prompt: Prompt): number {
    let chain = "";
    let held = 0;
    let unbroken = true;
    const end = Math.min(prompt.text.length, maxCachedLength);
    for (let at = 0; at + blockLength <= end; at += blockLength) {
      chain = hashText(chain + prompt.text.slice(at, at + blockLength));
      if (unbroken && this.#blocks.has(chain)) held += 1;
      else unbroken = false;
      this.#keep(chain);
    }
    return Math.max(0, Math.min(held * 64, prompt.tokens - 1));
  }

  clear(): void {
    this.#blocks.clear();
  }

  /** The block used longest ago goes first: a Set keeps the order of insertion. */
  #keep(block: string): void {
    this.#blocks.delete(block);
    this.#blocks.add(block);
    if (this.#blocks.size > maxBlocks) this.#blocks.delete(this.#blocks.values().next().value as string);
  }
}
