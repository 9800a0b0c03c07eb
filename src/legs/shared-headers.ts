/** Headers that all legs of a request are sent, beside those of each leg's own. Names are in lower case. */
export class SharedHeaders {
  /** Name, value, name, value; a name once. */
  readonly #pairs: readonly string[];
  /** Made for the first leg, for all of them. */
  #lines: string | undefined;

  /** Values that web `Headers` have given, or would take: nothing in them ends a header. */
  constructor(pairs: readonly string[]) {
    this.#pairs = pairs;
  }

  /** As lines of an HTTP/1.1 head (latin1), without those that `own` has too. */
  linesBeside(own: Readonly<Record<string, string>>): string {
    for (const name in own) if (this.#has(name)) return linesOf(this.#pairs, own);
    this.#lines ??= linesOf(this.#pairs, NONE);
    return this.#lines;
  }

  /** Together with those of `own`, which go before them. */
  with(own: Readonly<Record<string, string>>): Record<string, string> {
    // A header may be called `__proto__`.
    const all: Record<string, string> = Object.create(null);
    const pairs = this.#pairs;
    for (let i = 0; i < pairs.length; i += 2) all[pairs[i]!] = pairs[i + 1]!;
    return Object.assign(all, own);
  }

  #has(name: string): boolean {
    const pairs = this.#pairs;
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === name) return true;
    return false;
  }
}

const NONE: Readonly<Record<string, string>> = {};

/** Joined in one go: a string of strings is put together anew by each leg. */
function linesOf(pairs: readonly string[], without: Readonly<Record<string, string>>): string {
  const parts: string[] = [];
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i]!;
    if (!Object.hasOwn(without, name)) parts.push(name, ": ", pairs[i + 1]!, "\r\n");
  }
  return parts.join("");
}
