import { findMember } from "./member.ts";
import type { JsonObject, Member } from "./scan.ts";

/** What to change in an object. */
export interface Edits {
  /** Keys (decoded) to remove, every occurrence. A constant list is cheapest as a `Set` made once. */
  drop?: readonly string[] | ReadonlySet<string>;
  /** JSON text by key (decoded). The caller vouches for its validity. `undefined` leaves the member as it is. */
  set?: Readonly<Record<string, string | undefined>>;
}

interface Replacement {
  key: string;
  raw: string;
  /** The member whose value is replaced, the last of its key; undefined: the member is appended. */
  target: Member | undefined;
}

/**
 * The text of an object with members dropped, replaced or appended; every other byte stays as it came (contract section 8).
 *
 * - a dropped member goes with one comma and the whitespace on that side, in every occurrence
 * - a set member keeps its place (that of the last occurrence, the one that decides) and its key as it was written;
 *   earlier occurrences are removed; where there is none it is appended behind the last member
 * - a key in both is dropped, then appended
 *
 * @param doc a scanned object, whose positions stay valid for it: nothing is changed in place
 * @returns the whole text that holds the object, edited; valid JSON whenever the raw texts are
 */
export function splice(doc: JsonObject, edits: Edits): string {
  const { text, members } = doc;
  const drop = edits.drop === undefined ? undefined : membershipOf(edits.drop);
  const replacements = replacementsFor(doc, edits.set, drop);
  const last = members.length - 1;
  let out = "";
  // Everything before `done` is in `out` or was removed.
  let done = 0;
  let kept = false;
  for (let i = 0; i <= last; i++) {
    const member = members[i]!;
    const replacement = replacementOf(replacements, member.key);
    if (drop?.(member.key) || (replacement !== undefined && replacement.target !== member)) {
      if (kept) {
        // Its comma is the one before it. The member before it may itself be gone, up to its own end.
        out += text.slice(done, members[i - 1]!.valueEnd);
        done = member.valueEnd;
      } else {
        // Nothing is before it, so the comma behind it goes, up to the next key.
        out += text.slice(done, member.keyStart);
        done = i < last ? members[i + 1]!.keyStart : member.valueEnd;
      }
      continue;
    }
    kept = true;
    if (replacement !== undefined) {
      out += text.slice(done, member.valueStart) + replacement.raw;
      done = member.valueEnd;
    }
  }
  const end = last < 0 ? doc.open + 1 : members[last]!.valueEnd;
  out += text.slice(done, end);
  for (const replacement of replacements) {
    if (replacement.target !== undefined) continue;
    out += `${kept ? "," : ""}${JSON.stringify(replacement.key)}:${replacement.raw}`;
    kept = true;
  }
  return out + text.slice(end);
}

function membershipOf(keys: readonly string[] | ReadonlySet<string>): (key: string) => boolean {
  if (keys instanceof Set) return (key) => keys.has(key);
  const list = keys as readonly string[];
  return (key) => list.includes(key);
}

// A list of a few entries, searched in order, and never an object by key: `__proto__` is a key like any other.
function replacementsFor(
  doc: JsonObject,
  set: Edits["set"],
  drop: ((key: string) => boolean) | undefined,
): Replacement[] {
  const replacements: Replacement[] = [];
  if (set === undefined) return replacements;
  for (const key of Object.keys(set)) {
    const raw = set[key];
    if (raw === undefined) continue;
    replacements.push({ key, raw, target: drop?.(key) ? undefined : findMember(doc, key) });
  }
  return replacements;
}

function replacementOf(replacements: readonly Replacement[], key: string): Replacement | undefined {
  for (const replacement of replacements) {
    if (replacement.key === key) return replacement;
  }
  return undefined;
}
