import type { AnswerHeaders } from "../../legs/exchange.ts";

/** Headers as the parser gives them: name, value, name, value. An answer has ten of them, of which two or three are looked at once. */
export class HeaderPairs implements AnswerHeaders {
  readonly #pairs: readonly string[];

  constructor(pairs: readonly string[]) {
    this.#pairs = pairs;
  }

  /** Several of one name are one list (RFC 9110 section 5.3). */
  get(name: string): string | null {
    const pairs = this.#pairs;
    let found: string | null = null;
    for (let i = 0; i < pairs.length; i += 2) {
      if (isNamed(pairs[i]!, name)) found = found === null ? pairs[i + 1]! : `${found}, ${pairs[i + 1]}`;
    }
    return found;
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  forEach(visit: (value: string, name: string) => void): void {
    const pairs = this.#pairs;
    for (let i = 0; i < pairs.length; i += 2) visit(pairs[i + 1]!, pairs[i]!.toLowerCase());
  }
}

/** Without a lower-case copy of each name: `lower` is letters, digits and hyphens, which no other character of a name differs from by this bit. */
function isNamed(name: string, lower: string): boolean {
  if (name.length !== lower.length) return false;
  for (let i = 0; i < lower.length; i++) {
    if ((name.charCodeAt(i) | 0x20) !== lower.charCodeAt(i)) return false;
  }
  return true;
}
