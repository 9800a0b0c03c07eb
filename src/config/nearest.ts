/** Edit distance (Levenshtein); both words are short names, so two rows of numbers are enough. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replace, row[j]! + 1, next[j - 1]! + 1));
    }
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
