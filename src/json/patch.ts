import { findMember } from "./member.ts";
import type { JsonObject } from "./scan.ts";
import { jsonString } from "./text.ts";

interface Change {
  start: number;
  end: number;
  raw: string;
}

/**
 * Several changes of one JSON text, gathered first and made in one pass: each `setAt` would scan and copy the whole text again, and
 * answers with logprobs are megabytes. Positions are those of the text as it came; changes must not lie within one another.
 */
export class Patch {
  readonly #text: string;
  readonly #changes: Change[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  /** A member's value (of duplicates the last one's), or the member behind the last one. `doc` is an object within the text. */
  set(doc: JsonObject, key: string, raw: string): void {
    const member = findMember(doc, key);
    if (member !== undefined) {
      this.replace(member.valueStart, member.valueEnd, raw);
      return;
    }
    const last = doc.members[doc.members.length - 1];
    const at = last?.valueEnd ?? doc.open + 1;
    const first = last === undefined && !this.#changes.some(({ start }) => start === at);
    this.replace(at, at, `${first ? "" : ","}${jsonString(key)}:${raw}`);
  }

  /** Characters from `start` to before `end`; nothing is removed where they are equal. */
  replace(start: number, end: number, raw: string): void {
    this.#changes.push({ start, end, raw });
  }

  /** The changed text; the very same string when there was no change. */
  apply(): string {
    if (this.#changes.length === 0) return this.#text;
    // Stable, so that members appended at one place keep their order; a replaced last value comes before what is appended to it.
    const changes = this.#changes.sort((a, b) => a.start - b.start);
    let out = "";
    let done = 0;
    for (const { start, end, raw } of changes) {
      out += this.#text.slice(done, start) + raw;
      done = end;
    }
    return out + this.#text.slice(done);
  }
}
