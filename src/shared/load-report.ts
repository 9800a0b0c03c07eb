import * as v from "valibot";
import { MOST_TEXT } from "./store.ts";

/**
 * Requests in hand, prompt tokens still to be computed, 1 where it has been found broken, and a hash of its address: names that are given
 * by a router are given otherwise by another. Earlier versions have none.
 */
export type WorkerReport = readonly [requests: number, tokens: number, broken: 0 | 1, address?: number];

/** What one router says about one pool, once a second at most. */
export interface LoadReport {
  /** By worker. */
  workers: Map<string, WorkerReport>;
  /** By worker: hashes of prompt beginnings it was sent lately. */
  prefixes: Map<string, readonly number[]>;
  /** Another one in each report of a router, so that one that is read again is not taken for news. Earlier versions have none. */
  turn?: number | undefined;
}

const MOST_WORKERS = 4_096;
const MOST_HASHES = 1_024;
/** No worker has more in hand; a report that says so is wrong, and must not draw a fleet's load to one side. */
const MOST_REQUESTS = 100_000;
const MOST_TOKENS = 1e9;

const count = (most: number) => v.pipe(v.number(), v.finite(), v.minValue(0), v.maxValue(most));

const worker = [count(MOST_REQUESTS), count(MOST_TOKENS), v.picklist([0, 1])] as const;

const schema = v.object({
  v: v.literal(1),
  n: v.optional(v.number()),
  w: v.record(v.string(), v.union([v.tuple([...worker, v.pipe(v.number(), v.safeInteger())]), v.tuple(worker)])),
  p: v.record(v.string(), v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/=]*$/))),
});

/** No longer than stores keep: what is too much is left out, prefixes first, then the workers with the fewest requests. */
export function writeReport({ workers, prefixes, turn: n }: LoadReport): string {
  const p: Record<string, string> = {};
  for (const [name, hashes] of prefixes) p[name] = toBase64(hashes);
  const print = (w: Iterable<readonly [string, unknown]>, p: object) =>
    JSON.stringify({ v: 1, n, w: Object.fromEntries(w), p });
  const whole = print(workers, p);
  if (whole.length <= MOST_TEXT) return whole;
  let room = MOST_TEXT - print([], {}).length;
  const busiest = [...workers].sort(([, [a]], [, [b]]) => b - a);
  return print(
    busiest.filter((entry) => {
      // A pair's brackets and comma stand for its colon and comma, with one to spare.
      room -= JSON.stringify(entry).length;
      return room >= 0;
    }),
    {},
  );
}

/** Undefined for anything that is not a report: whatever stands in the store, reading it throws nothing and costs a bounded time. */
export function readReport(text: string): LoadReport | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  const read = v.safeParse(schema, json);
  if (!read.success) return undefined;
  const { n, w, p } = read.output;
  const workers: LoadReport["workers"] = new Map(Object.entries(w).slice(0, MOST_WORKERS));
  const prefixes: LoadReport["prefixes"] = new Map();
  let left = MOST_HASHES;
  for (const [name, packed] of Object.entries(p).slice(0, MOST_WORKERS)) {
    const hashes = fromBase64(packed)?.slice(0, left);
    if (hashes === undefined) return undefined;
    left -= hashes.length;
    prefixes.set(name, hashes);
  }
  return { workers, prefixes, turn: n };
}

/** Four bytes a hash: decimal numbers would be twice as long. */
function toBase64(hashes: readonly number[]): string {
  const bytes = new DataView(new ArrayBuffer(4 * hashes.length));
  for (const [index, hash] of hashes.entries()) bytes.setUint32(4 * index, hash);
  return btoa(String.fromCharCode(...new Uint8Array(bytes.buffer)));
}

function fromBase64(text: string): number[] | undefined {
  let bytes: string;
  try {
    bytes = atob(text);
  } catch {
    return undefined;
  }
  const hashes: number[] = [];
  for (let at = 0; at + 4 <= bytes.length && hashes.length < MOST_HASHES; at += 4) {
    const high = (bytes.charCodeAt(at) << 24) | (bytes.charCodeAt(at + 1) << 16);
    hashes.push((high | (bytes.charCodeAt(at + 2) << 8) | bytes.charCodeAt(at + 3)) >>> 0);
  }
  return hashes;
}
