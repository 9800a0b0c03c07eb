const INTEGER = /^-?\d+$/;

/**
 * The seed of one sample when the client gave one for all: seed + sample, as an engine with `n` counts it (wire facts, vLLM), exact to
 * 64 bits. Behind 2^63 − 1 it goes on at −2^63: an HTTP request cannot carry 2^63 (the engines answer 400), and the engine, which counts
 * on inside, keeps only the 64 bits of its sum, which are these.
 *
 * @param raw JSON text of the client's seed; undefined when there is none
 * @param sample number of the sample among those of its prompt, from 0
 * @returns JSON text of the seed; undefined: the client's stays as it is (none, sample 0, or no 64-bit integer, which the engine refuses)
 */
export function sampleSeed(raw: string | undefined, sample: number): string | undefined {
  if (raw === undefined || sample === 0) return undefined;
  const digits = digitsOf(raw);
  if (digits === undefined) return undefined;
  const seed = BigInt(digits);
  if (BigInt.asIntN(64, seed) !== seed) return undefined;
  return String(BigInt.asIntN(64, seed + BigInt(sample)));
}

/** An integer's digits; the engines' readers take `"7"` and `7.0` for one too. */
function digitsOf(raw: string): string | undefined {
  const text = raw.startsWith('"') ? (JSON.parse(raw) as string).trim() : raw;
  if (INTEGER.test(text)) return text;
  const value = text === "" ? Number.NaN : Number(text);
  return Number.isSafeInteger(value) ? String(value) : undefined;
}
