/**
 * The simulator's tokens. Prompts are cut into runs of up to three UTF-8 bytes, so that ids can be turned back into
 * the very same text (TensorRT-LLM's generation leg gets ids instead of the prompt); answers are made of whole words
 * with ids of their own above those.
 */

const twoBytes = 256;
const threeBytes = twoBytes + 65_536;
const firstWord = threeBytes + 16_777_216;

const plainWords =
  "the a small river runs under old bridge and every morning light falls on quiet water where three boats wait for " +
  "wind people walk along stone path talk about rain bread work music while children count birds near open gate one " +
  "of them asks why answer is never short but most things become clear when you look twice then again with patience";

/** Answer words, each with its leading space; two need more than one byte per character. */
export const words: readonly string[] = [
  ...new Set(plainWords.split(" ").map((word) => ` ${word}`)),
  " naïve",
  " 東京",
  ".",
  ",",
];
/** The first half of a character that takes two tokens: its text is empty, as in the engines' streams. */
const emojiHead = words.length;
const emojiTail = words.length + 1;
export const emoji = " 🙂";

/** How many different things an answer can say next. */
export const answerWords = words.length + 1;

export interface Token {
  id: number;
  /** What the token adds to the text; empty where it ends inside a character. */
  text: string;
}

/** The tokens of answer word number `index` (modulo the vocabulary); the last one is a character of two tokens. */
export function wordTokens(index: number): Token[] {
  const at = index % answerWords;
  const word = words[at];
  if (word !== undefined) return [{ id: firstWord + at, text: word }];
  return [
    { id: firstWord + emojiHead, text: "" },
    { id: firstWord + emojiTail, text: emoji },
  ];
}

/** How many tokens a prompt text has. */
export function countTokens(text: string): number {
  return Math.ceil(new TextEncoder().encode(text).byteLength / 3);
}

export function tokenize(text: string): number[] {
  const bytes = new TextEncoder().encode(text);
  const ids: number[] = [];
  for (let at = 0; at < bytes.length; at += 3) {
    const [a, b, c] = [bytes[at] as number, bytes[at + 1], bytes[at + 2]];
    if (b === undefined) ids.push(a);
    else if (c === undefined) ids.push(twoBytes + (a << 8) + b);
    else ids.push(threeBytes + (a << 16) + (b << 8) + c);
  }
  return ids;
}

/** The text of ids, prompt or answer. Unknown ids become the replacement character, as a tokenizer would print them. */
export function detokenize(ids: readonly number[]): string {
  const bytes: number[] = [];
  for (const id of ids) {
    if (id >= firstWord) bytes.push(...new TextEncoder().encode(wordText(id - firstWord)));
    else if (id >= threeBytes)
      bytes.push((id - threeBytes) >> 16, ((id - threeBytes) >> 8) & 255, (id - threeBytes) & 255);
    else if (id >= twoBytes) bytes.push((id - twoBytes) >> 8, (id - twoBytes) & 255);
    else bytes.push(id & 255);
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

function wordText(index: number): string {
  if (index === emojiHead) return "";
  return index === emojiTail ? emoji : (words[index] ?? "\uFFFD");
}

/** 53-bit hash of a text as hex; equal prompts of two legs must give equal answers, so it may not depend on the run. */
export function hashText(text: string): string {
  let low = 0xdeadbeef;
  let high = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    low = Math.imul(low ^ code, 2_654_435_761);
    high = Math.imul(high ^ code, 1_597_334_677);
  }
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  return (4_294_967_296 * (2_097_151 & high) + (low >>> 0)).toString(16).padStart(14, "0");
}

/** A small deterministic generator of numbers in [0, 1). */
export function randomOf(seed: string): () => number {
  let state = Number.parseInt(hashText(seed).slice(-8), 16) >>> 0;
  return function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
