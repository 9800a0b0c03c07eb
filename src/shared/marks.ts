import * as v from "valibot";
import { type WorkerEntry, workerObject } from "../config/worker.ts";
import type { Worker, WorkerRole } from "../workers/worker.ts";

const ROLES = ["prefill", "decode", "aggregated"] as const;

/** What an operator has done to one worker through one router's admin routes; the latest stands. */
export interface Mark {
  /** Name of the worker, by the marking router: where names are given to what DNS lists, another router may call another one so. */
  worker: string;
  /** Its address, which says which one is meant. */
  url?: string | undefined;
  /** Milliseconds since 1970 by the marking router's clock, and later than anything that router had seen. */
  at: number;
  what: "drain" | "leave" | "join";
  /** Of a `join`: its role and settings, without any key. */
  role?: WorkerRole | undefined;
  settings?: WorkerEntry | undefined;
}

/** How long a mark is kept: drains are a matter of minutes, and a router that was away for a day has its configuration. */
export const MARK_MS = 24 * 3_600_000;
/** Read of one record. */
export const MOST_MARKS = 512;
export const MOST_URL = 2_048;

const schema = v.object({
  worker: v.pipe(v.string(), v.minLength(1), v.maxLength(200)),
  url: v.optional(v.pipe(v.string(), v.maxLength(MOST_URL))),
  at: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  what: v.picklist(["drain", "leave", "join"]),
  role: v.optional(v.picklist(ROLES)),
  // The configuration's own rules: a url that it would refuse is refused here.
  settings: v.optional(workerObject),
});

/**
 * The marks of one pool: by worker the latest one wins (last writer wins), so routers that were apart agree once they have seen the
 * same records, in whatever order.
 */
export class Marks {
  readonly #latest = new Map<string, Mark>();
  /** Addresses at which somebody else may be now, and up to which mark what was said of them holds no longer. */
  readonly #gone = new Map<string, number>();
  /** When which mark about what was first known to be in the store, on this router's monotonic clock. */
  readonly #stored = new Map<string, { at: number; since: number }>();
  #clock = 0;

  /** A mark of our own; later than every mark this router knows, however its wall clock runs. */
  make(mark: Omit<Mark, "at">, wallNow: number): Mark {
    const made = { ...mark, at: Math.max(wallNow, this.#clock + 1) };
    this.take(made);
    return made;
  }

  /** True when it is news: then it is to be acted on. */
  take(mark: Mark): boolean {
    this.#clock = Math.max(this.#clock, mark.at);
    const known = this.#latest.get(markKey(mark));
    if (known !== undefined && (known.at > mark.at || (known.at === mark.at && !overrules(mark, known)))) return false;
    this.#latest.set(markKey(mark), mark);
    return true;
  }

  /** It could not be acted on: it is news again when it comes again. */
  forget(mark: Mark): void {
    if (this.#latest.get(markKey(mark)) === mark) this.#latest.delete(markKey(mark));
  }

  /** The latest one of the last day about the worker at this address. */
  about(url: string, wallNow: number): Mark | undefined {
    const mark = this.#latest.get(url);
    if (mark === undefined || mark.at < wallNow - MARK_MS || mark.at <= (this.#gone.get(url) ?? 0)) return undefined;
    return mark;
  }

  /** The worker it was said of is no longer there. The mark itself stays known, or it would be news when it is read again. */
  gone(url: string): void {
    const mark = this.#latest.get(url);
    if (mark !== undefined) this.#gone.set(url, mark.at);
  }

  /** It was written to the store, or read there: all routers can read it. */
  stored(mark: Mark, now: number): void {
    const known = this.#stored.get(markKey(mark));
    if (known === undefined || known.at < mark.at) this.#stored.set(markKey(mark), { at: mark.at, since: now });
  }

  /** Undefined: it has not been yet. */
  storedSince(mark: Mark): number | undefined {
    const known = this.#stored.get(markKey(mark));
    return known?.at === mark.at ? known.since : undefined;
  }

  /** Those of the last day, the latest first. */
  list(wallNow: number): Mark[] {
    for (const [key, { at }] of this.#latest) {
      if (at >= wallNow - MARK_MS) continue;
      this.#latest.delete(key);
      this.#gone.delete(key);
    }
    for (const [key, { at }] of this.#stored) if (at < wallNow - MARK_MS) this.#stored.delete(key);
    return [...this.#latest.values()].sort((a, b) => b.at - a.at);
  }
}

/** Of the same millisecond: all routers must agree, and who takes a worker out means it. */
function overrules(mark: Mark, known: Mark): boolean {
  return FIRMNESS.indexOf(mark.what) > FIRMNESS.indexOf(known.what);
}

const FIRMNESS: readonly Mark["what"][] = ["join", "drain", "leave"];

/** What a mark is about. Routers of an earlier version say no address. */
export function markKey({ worker, url }: Mark): string {
  return url ?? worker;
}

/** A worker's settings as another router's configuration could have them; no key, and no name of one. */
export function entryOf({ url, name, weight, configured }: Worker): WorkerEntry {
  const { bootstrapHost, bootstrapPort, dpSize, engineId, kvHost, kvPort, tpSize, ppSize } = configured;
  const told = { bootstrapHost, bootstrapPort, dpSize, engineId, kvHost };
  const set = Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined));
  return { url, name, weight, kvPort, tpSize, ppSize, ...set } as WorkerEntry;
}

/** Undefined for anything that is no list; what is no mark in it hides none of the others. */
export function readMarks(text: string): Mark[] | undefined {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(json)) return undefined;
  return json.slice(0, MOST_MARKS).flatMap((entry) => {
    const read = v.safeParse(schema, entry);
    return read.success ? [read.output] : [];
  });
}
