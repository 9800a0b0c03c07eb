/** Small, fast and repeatable (mulberry32): a failure is told by its seed. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from 0 to below `n`. */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

const MOST_BYTES = 65_536;

/**
 * A few byte-level changes of one seed: flips, cuts, repetitions, words of the target's own language put in anywhere, pieces of another
 * seed. Nothing knows about grammar, so what comes out breaks in the middle of characters, numbers and line ends.
 */
export function mutate(random: Random, seeds: readonly Uint8Array[], words: readonly Uint8Array[]): Uint8Array {
  let bytes = random.pick(seeds);
  const changes = 1 + random.below(6);
  for (let i = 0; i < changes && bytes.length < MOST_BYTES; i++) bytes = change(random, bytes, seeds, words);
  return bytes;
}

function change(
  random: Random,
  bytes: Uint8Array,
  seeds: readonly Uint8Array[],
  words: readonly Uint8Array[],
): Uint8Array {
  const at = random.below(bytes.length + 1);
  const to = Math.min(bytes.length, at + random.below(random.next() < 0.8 ? 8 : 400));
  switch (random.below(8)) {
    case 0: {
      const flipped = bytes.slice();
      if (at < flipped.length) flipped[at] = flipped[at]! ^ (1 << random.below(8));
      return flipped;
    }
    case 1:
      return join(bytes.subarray(0, at), Uint8Array.of(random.below(256)), bytes.subarray(at));
    case 2:
      return join(bytes.subarray(0, at), bytes.subarray(to));
    case 3:
      return join(bytes.subarray(0, to), bytes.subarray(at));
    case 4:
      return bytes.slice(0, at);
    case 5: {
      const other = random.pick(seeds);
      const from = random.below(other.length + 1);
      return join(bytes.subarray(0, at), other.subarray(from, from + random.below(200)), bytes.subarray(to));
    }
    default:
      return join(bytes.subarray(0, at), random.pick(words), bytes.subarray(random.next() < 0.5 ? at : to));
  }
}

export function join(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The same bytes in chunks of any size, empty ones too. */
export function chunksOf(random: Random, bytes: Uint8Array): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  const coarse = random.pick([1, 3, 40, 1_000, MOST_BYTES * 2]);
  for (let at = 0; at < bytes.length; ) {
    const end = at + random.below(coarse + 1);
    chunks.push(bytes.slice(at, end));
    at = end;
  }
  return chunks;
}

const encoder = new TextEncoder();

export function texts(...list: readonly string[]): Uint8Array[] {
  return list.map((text) => encoder.encode(text));
}
