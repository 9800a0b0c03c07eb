import type { JsonObject, Member } from "./scan.ts";

/**
 * The member that decides for `key`: of duplicates the last one, as in `JSON.parse` (contract section 8).
 *
 * @param doc a scanned object
 * @param key the decoded key; a member written `"\u006dodel"` is found as `model`
 */
export function findMember(doc: JsonObject, key: string): Member | undefined {
  const { members } = doc;
  for (let i = members.length - 1; i >= 0; i--) {
    const member = members[i]!;
    if (member.key === key) return member;
  }
  return undefined;
}

/** Whether the object has a member `key`, `null` included. */
export function hasMember(doc: JsonObject, key: string): boolean {
  return findMember(doc, key) !== undefined;
}

/** The deciding member's value as the JSON text it was sent as, without surrounding whitespace; undefined when absent. */
export function rawValue(doc: JsonObject, key: string): string | undefined {
  const member = findMember(doc, key);
  return member === undefined ? undefined : doc.text.slice(member.valueStart, member.valueEnd);
}

/**
 * The deciding member when it is no object and no list, parsed; undefined when absent or one of those. For members that should be a
 * number or a name: what a client puts there instead may be 32 MiB of brackets, which parsed would be a gigabyte. Numbers come as
 * JavaScript numbers: what is sent on must be `rawValue`, never this.
 */
export function readScalar(doc: JsonObject, key: string): unknown {
  const member = findMember(doc, key);
  if (member === undefined) return undefined;
  const first = doc.text.charCodeAt(member.valueStart);
  return first === 0x7b || first === 0x5b ? undefined : JSON.parse(doc.text.slice(member.valueStart, member.valueEnd));
}

/** The deciding member when it is a JSON string, decoded; undefined when absent or of another type. */
export function readString(doc: JsonObject, key: string): string | undefined {
  const member = findMember(doc, key);
  if (member === undefined || doc.text.charCodeAt(member.valueStart) !== 0x22) return undefined;
  return JSON.parse(doc.text.slice(member.valueStart, member.valueEnd)) as string;
}

/** The deciding member when it is `true` or `false`; undefined when absent or of another type. */
export function readBoolean(doc: JsonObject, key: string): boolean | undefined {
  const member = findMember(doc, key);
  if (member === undefined) return undefined;
  // A valid JSON value that begins with t or f is the whole literal.
  const first = doc.text.charCodeAt(member.valueStart);
  return first === 0x74 ? true : first === 0x66 ? false : undefined;
}

/** The deciding member when it is a JSON number, as a JavaScript number (rounded above 2^53); undefined when absent or of another type. */
export function readNumber(doc: JsonObject, key: string): number | undefined {
  const member = findMember(doc, key);
  if (member === undefined) return undefined;
  const first = doc.text.charCodeAt(member.valueStart);
  if (first !== 0x2d && (first < 0x30 || first > 0x39)) return undefined;
  return Number(doc.text.slice(member.valueStart, member.valueEnd));
}
