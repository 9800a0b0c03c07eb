/** Edit distance with neighbours exchanged counting as one (optimal string alignment): `prot` is one slip away from `port`. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      let least = Math.min(replace, row[j]! + 1, next[j - 1]! + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, before[j - 2]! + 1);
      next.push(least);
    }
    before = row;
    row = next;
  }
  return row[b.length]!;
}

/** The name most like `word`, or undefined when none is near enough to be a slip of the fingers. Case, dashes and underscores do not count. */
export function nearest(word: string, names: Iterable<string>): string | undefined {
  // Bounded, because the word comes from a file or a command line and the cost is the product of the lengths.
  if (word.length > 64) return undefined;
  const plain = (s: string): string => s.toLowerCase().replaceAll(/[-_]/g, "");
  const sought = plain(word);
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(sought.length / 3)) + 1;
  for (const name of names) {
    const d = distance(sought, plain(name));
    if (d < bestDistance) {
      best = name;
      bestDistance = d;
    }
  }
  return best;
}
