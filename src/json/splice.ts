import { findMember } from "./member.ts";
import { Pieces } from "./pieces.ts";
import type { JsonObject } from "./scan.ts";

/** What to change in an object. */
export interface Edits {
  /** Keys (decoded) to remove, every occurrence. A constant list is cheapest as a `Set` made once. */
  drop?: readonly string[] | ReadonlySet<string>;
  /** JSON text by key (decoded). The caller vouches for its validity. `undefined` leaves the member as it is. */
  set?: Readonly<Record<string, string | undefined>>;
}

/** A key that needs no escapes; most are the router's own words. */
const PLAIN_KEY = /^[\w-]+$/;

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
  return splicePieces(doc, edits).toString();
}

/** As `splice`, for a text that is written and not read. */
export function splicePieces(doc: JsonObject, { drop, set }: Edits): Pieces {
  const { text, members } = doc;
  const last = members.length - 1;
  const out: string[] = [];
  // Everything before `done` is in `out` or was removed.
  let done = 0;
  let kept = false;
  for (let i = 0; i <= last; i++) {
    const member = members[i]!;
    const raw = rawFor(set, member.key);
    if (isIn(drop, member.key) || (raw !== undefined && findMember(doc, member.key) !== member)) {
      if (kept) {
        // Its comma is the one before it. The member before it may itself be gone, up to its own end.
        out.push(text.slice(done, members[i - 1]!.valueEnd));
        done = member.valueEnd;
      } else {
        // Nothing is before it, so the comma behind it goes, up to the next key.
        out.push(text.slice(done, member.keyStart));
        done = i < last ? members[i + 1]!.keyStart : member.valueEnd;
      }
      continue;
    }
    kept = true;
    if (raw !== undefined) {
      out.push(text.slice(done, member.valueStart), raw);
      done = member.valueEnd;
    }
  }
  const end = last < 0 ? doc.open + 1 : members[last]!.valueEnd;
  out.push(text.slice(done, end));
  for (const key in set) {
    const raw = rawFor(set, key);
    if (raw === undefined || (findMember(doc, key) !== undefined && !isIn(drop, key))) continue;
    out.push(`${kept ? "," : ""}${PLAIN_KEY.test(key) ? `"${key}"` : JSON.stringify(key)}:${raw}`);
    kept = true;
  }
  out.push(text.slice(end));
  return new Pieces(out);
}

function isIn(keys: Edits["drop"], key: string): boolean {
  if (keys === undefined) return false;
  return keys instanceof Set ? keys.has(key) : (keys as readonly string[]).includes(key);
}

/** Own members only: a client's key may be `__proto__` or `constructor`, which are keys like any other. */
function rawFor(set: Edits["set"], key: string): string | undefined {
  return set !== undefined && Object.hasOwn(set, key) ? set[key] : undefined;
}
