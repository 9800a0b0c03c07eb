/** `bytes` cut anywhere, each piece in memory of its own as a socket gives it. */
export function pieces(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return ends.flatMap((to, i) => {
    const from = i === 0 ? 0 : ends[i - 1]!;
    return to === from ? [] : [new Uint8Array(bytes.subarray(from, to))];
  });
}

export function textOf(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes).toString();
}
