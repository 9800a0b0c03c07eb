import { findMember, rawValue } from "../json/member.ts";
import { JsonError, type JsonObject, scanObject } from "../json/scan.ts";
import { splice } from "../json/splice.ts";

const INTEGER = /^-?\d+$/;
/** What a prompt cost: it was computed once, however many samples it has. */
const OF_PROMPT = /^(?:prompt_|input_|cached?_)/;
/** What the samples cost. */
const OF_SAMPLES = /^(?:completion_|output_|reasoning_)/;

/**
 * The usage of several parts as one engine would have reported it: what belongs to the prompt counted once per prompt (that of its first
 * sample), what belongs to the answer summed over all, `total_tokens` their sum. Integers are exact; members that are neither stay as
 * the first part has them.
 *
 * @param usages JSON text of each part's usage, in order; undefined or `null` where a part has none
 * @param samples samples per prompt: part `p * samples` is the first one of prompt `p`
 * @returns JSON text; undefined when no part has a usage
 */
export function mergeUsage(usages: readonly (string | undefined)[], samples: number): string | undefined {
  const all = usages.map(objectOf);
  const first = all.find((usage) => usage !== undefined);
  if (first === undefined) return undefined;
  const ofPrompts = all.filter((_, part) => part % samples === 0);
  const set: Record<string, string | undefined> = Object.create(null);
  for (const key of keysOf(all)) {
    if (OF_PROMPT.test(key)) set[key] = sumMember(ofPrompts, key);
    else if (OF_SAMPLES.test(key)) set[key] = sumMember(all, key);
  }
  if (findMember(first, "total_tokens") !== undefined) {
    const total = sum([set.prompt_tokens ?? set.input_tokens, set.completion_tokens ?? set.output_tokens]);
    set.total_tokens = total ?? sumMember(all, "total_tokens");
  }
  return splice(first, { set });
}

/** One member over several objects: integers are added, objects member by member; of anything else the first that is there. */
function sumMember(docs: readonly (JsonObject | undefined)[], key: string): string | undefined {
  const raws: string[] = [];
  for (const doc of docs) {
    const raw = doc === undefined ? undefined : rawValue(doc, key);
    if (raw !== undefined && raw !== "null") raws.push(raw);
  }
  const added = sum(raws);
  if (added !== undefined) return added;
  const nested = raws.map(objectOf);
  const first = nested[0];
  if (first === undefined) return raws[0];
  const set: Record<string, string | undefined> = Object.create(null);
  for (const inner of keysOf(nested)) set[inner] = sumMember(nested, inner);
  return splice(first, { set });
}

/** Undefined unless there is something to add and all of it is integers. */
function sum(raws: readonly (string | undefined)[]): string | undefined {
  let total = 0n;
  for (const raw of raws) {
    if (raw === undefined || !INTEGER.test(raw)) return undefined;
    total += BigInt(raw);
  }
  return raws.length === 0 ? undefined : String(total);
}

function keysOf(docs: readonly (JsonObject | undefined)[]): Set<string> {
  const keys = new Set<string>();
  for (const doc of docs) for (const { key } of doc?.members ?? []) keys.add(key);
  return keys;
}

function objectOf(raw: string | undefined): JsonObject | undefined {
  if (raw === undefined || !raw.startsWith("{")) return undefined;
  try {
    return scanObject(raw);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}
