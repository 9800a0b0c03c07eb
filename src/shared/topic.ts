import { pullOf } from "../workers/policies/pressure.ts";
import type { Pool } from "../workers/pool.ts";
import { hashText, type Worker } from "../workers/worker.ts";
import type { LoadReport, WorkerReport } from "./load-report.ts";
import { type Mark, Marks, markKey } from "./marks.ts";
import type { Exchanged } from "./store.ts";

/**
 * One exchange per pool and second while there is something to say, a look now and then while there is not. Three of them (the store is
 * another, the marks are written, the others read) have to fit into five seconds.
 */
export const BUSY_MS = 1_000;
export const REST_MS = 1_500;
/** Not all routers at once: each rests longer by up to so much. */
export const JITTER = 0.1;
/** An exchange that takes longer has failed; on Workers one may also die with the request it rode on. */
export const PATIENCE_MS = 2_000;

/** A report counts in full for that long (one exchange late), then less and less, and after ten seconds not at all. */
const FRESH_MS = 2_000;
const STALE_MS = 10_000;
/** How often what was heard is added up again while nothing new comes: so that it fades. */
const FADE_MS = 500;
/**
 * How far a report is believed worker by worker; for the rest it counts for its pool alone. It is a second old, and a prompt is often done in
 * less: who was busy then is likely free now, and fifty routers that all run to the one that was free make it the busiest. In
 * `bench/simulation` prompts wait clearly longer with 1 and somewhat longer with 0; between 0.15 and 0.5 there is little to choose.
 */
const SHARPNESS = 0.3;
/** All records, not only changed ones, are read so often: a server may have been replaced by another without a word. */
const WHOLE_MS = 60_000;
/**
 * So long after a mark is in the store all others have read it (at their next exchange) and have said after that what they have in hand (at
 * the one after): each begins a rest after the last one, and takes `PATIENCE_MS` at most.
 */
const SETTLED_MS = 2 * ((1 + JITTER) * REST_MS + PATIENCE_MS);
/** A warning holds until the next reports. */
const WARNED_MS = 3_000;
const MOST_OTHERS = 4_096;

interface Other {
  report: LoadReport;
  /** When it was written, on this router's clock. */
  at: number;
}

/** One pool between this router and the others: what is due, what was heard, and its effect on the pool's workers. */
export class Topic {
  pool: Pool;
  readonly marks = new Marks();
  cursor = 0;
  nextAt: number;
  /** When the exchange under way began; undefined = none is. */
  startedAt: number | undefined;
  endedAt: number | undefined;
  turn = 0;
  /** The last report said something, so the next has to be written even if it says nothing. */
  spoke = false;
  marksDue = false;
  marksToldAt = 0;
  /** Records of marks of ours that are in the store, or may be. */
  marksWritten = 0;
  /** How many were written last, with which marks. */
  #recordsTold = 0;
  #marksTold: readonly Mark[] = [];
  /** Some marks had no room in what was written last. */
  marksUntold = false;
  /** By what they are about: when the last mark was made that could not be obeyed. */
  readonly refused = new Map<string, number>();
  readonly #own = new Map<string, Mark>();
  readonly #heard = new Map<string, Other>();
  /** By router: the turn of the last report heard. */
  readonly #turns = new Map<string, number>();
  /** Since when others have called a worker broken. */
  readonly #warnedSince = new Map<Worker, number>();
  readonly #seed: number;
  /** Since when no exchange with the store has failed; undefined = the last one has. */
  #inTouchSince: number | undefined;
  /** When the last one began that was answered. */
  #answeredFrom = Number.NEGATIVE_INFINITY;
  #epoch: number | undefined;
  /** When everything is read again. */
  #wholeAt: number;
  #appliedAt = Number.NEGATIVE_INFINITY;
  #applied = false;

  /** `seed`: for hashes of addresses, equal in all routers that share. */
  constructor(pool: Pool, now: number, seed = 1) {
    this.pool = pool;
    this.#seed = seed;
    this.nextAt = now;
    this.#wholeAt = now + WHOLE_MS;
  }

  get others(): number {
    return this.#heard.size;
  }

  begin(now: number): number {
    this.startedAt = now;
    this.turn += 1;
    return this.turn;
  }

  succeeded({ epoch, cursor }: Pick<Exchanged, "epoch" | "cursor">, now: number): void {
    const another = this.#epoch !== undefined && epoch !== this.#epoch;
    this.marksWritten = this.#recordsTold;
    for (const mark of this.#marksTold) this.marks.stored(mark, now);
    this.#marksTold = [];
    // Another one has to be told everything by everybody first.
    if (another || this.#inTouchSince === undefined) this.#inTouchSince = now;
    this.#answeredFrom = this.startedAt ?? now;
    this.#epoch = epoch;
    if (another) this.marksDue = true;
    this.cursor = another || now >= this.#wholeAt ? 0 : cursor;
    if (now >= this.#wholeAt) this.#wholeAt = now + WHOLE_MS;
    this.startedAt = undefined;
    this.endedAt = now;
  }

  /** What was written may not have arrived, and what comes back may be another store. */
  failed(nextAt: number): void {
    this.startedAt = undefined;
    this.turn += 1;
    this.nextAt = nextAt;
    this.#inTouchSince = undefined;
    this.#marksTold = [];
    // Of another store, or of the other half of one that was split, the cursor says nothing.
    this.cursor = 0;
    this.spoke = true;
    this.marksDue = true;
  }

  /** Said before they are sealed and sent: a mark made while that is under way is due anew, and so are all if it fails. */
  telling(records: number, marks: readonly Mark[], now: number): void {
    this.marksDue = false;
    this.marksToldAt = now;
    this.marksWritten = Math.max(this.marksWritten, records);
    this.#recordsTold = records;
    this.#marksTold = marks;
  }

  own(mark: Mark): void {
    this.#own.set(markKey(mark), mark);
  }

  /** Others are not told any more what was done here to a worker that is gone. */
  gone(url: string): void {
    this.marks.gone(url);
    if (this.#own.delete(url)) this.marksDue = true;
  }

  /** Marks made here that no other router has overruled. */
  ownMarks(wallNow: number): Mark[] {
    return this.marks.list(wallNow).filter((mark) => this.#own.get(markKey(mark)) === mark);
  }

  names(): ReadonlySet<string> {
    return new Set(this.pool.members().map(({ name }) => name));
  }

  /** Workers about which there is something to say: others take the rest for idle and well. */
  loads(now: number): LoadReport["workers"] {
    const loads: LoadReport["workers"] = new Map();
    const left = new Map<string, number>();
    for (const { url, load } of this.pool.retired()) left.set(url, (left.get(url) ?? 0) + load.requests);
    for (const worker of this.pool.members()) {
      const broken = worker.breaker.state(now) === "open" || !worker.health.healthy(now);
      const requests = worker.load.requests + (left.get(worker.url) ?? 0);
      left.delete(worker.url);
      if (requests > 0 || broken) {
        const address = hashText(worker.url, this.#seed);
        loads.set(worker.name, [requests, Math.round(worker.load.tokens), broken ? 1 : 0, address]);
      }
    }
    for (const [url, requests] of left) {
      const address = hashText(url, this.#seed);
      // Its name may be another one's by now.
      loads.set(`left-${address.toString(16)}`, [requests, 0, 0, address]);
    }
    return loads;
  }

  /**
   * False when it is known already. By the age alone a store whose clock was set back makes the last report of a router that has died a new
   * one each time it is read, until its clock is where it was.
   */
  heard(router: string, report: LoadReport, at: number): boolean {
    if (report.turn !== undefined && this.#turns.get(router) === report.turn) return false;
    if (report.turn !== undefined && (this.#turns.size < MOST_OTHERS || this.#turns.has(router))) {
      this.#turns.set(router, report.turn);
    }
    if (report.workers.size === 0) this.#heard.delete(router);
    else if (this.#heard.size < MOST_OTHERS || this.#heard.has(router)) this.#heard.set(router, { report, at });
    return true;
  }

  /** The store holds nothing else: what it has let go of does not come again. */
  readWhole(keys: ReadonlySet<string>): void {
    for (const router of this.#turns.keys()) if (!keys.has(router)) this.#turns.delete(router);
  }

  /**
   * No other router that is in touch with the store has anything in hand at this worker, or gives it anything: since the mark that says so
   * came into the store all have had the time to read it and to say what they have. False while the store is not reached: nobody knows.
   */
  drained(worker: Worker, mark: Mark, now: number): boolean {
    const since = this.marks.storedSince(mark);
    if (since === undefined || this.#inTouchSince === undefined) return false;
    if (this.#answeredFrom < Math.max(since, this.#inTouchSince) + SETTLED_MS) return false;
    const members = new Members(this.pool, this.#seed);
    for (const { report, at } of this.#heard.values()) {
      if (now - at >= STALE_MS) continue;
      for (const [name, told] of report.workers) if (told[0] > 0 && members.at(name, told) === worker) return false;
    }
    return true;
  }

  /** Adds up what the others have in hand, by age, and passes on their warnings. */
  apply(now: number, news = false): void {
    if (!news && (!this.#applied || now - this.#appliedAt < FADE_MS)) return;
    this.#appliedAt = now;
    const members = new Members(this.pool, this.#seed);
    for (const worker of this.pool.members()) {
      worker.elsewhere.requests = 0;
      worker.elsewhere.tokens = 0;
    }
    const broken = new Set<Worker>();
    for (const [router, { report, at }] of this.#heard) {
      const weight = Math.min(1, (STALE_MS - (now - at)) / (STALE_MS - FRESH_MS));
      if (weight <= 0) {
        this.#heard.delete(router);
        continue;
      }
      for (const [name, told] of report.workers) {
        const worker = members.meant(name, told);
        if (worker === undefined) continue;
        const [requests, tokens, isBroken] = told;
        worker.elsewhere.requests += weight * requests;
        worker.elsewhere.tokens += weight * tokens;
        if (isBroken === 1) broken.add(worker);
      }
    }
    this.#applied = this.#heard.size > 0;
    for (const list of [this.pool.prefill, this.pool.decode, this.pool.workers]) level(list);
    this.#warn(broken, now);
  }

  #warn(broken: ReadonlySet<Worker>, now: number): void {
    for (const worker of this.#warnedSince.keys()) if (!broken.has(worker)) this.#warnedSince.delete(worker);
    for (const worker of broken) {
      const since = this.#warnedSince.get(worker) ?? now;
      this.#warnedSince.set(worker, since);
      worker.warned(since, now + WARNED_MS);
    }
  }
}

/** A pool's workers, as other routers speak of them. */
class Members {
  readonly #byName = new Map<string, Worker>();
  readonly #byAddress = new Map<number, Worker>();

  constructor(pool: Pool, seed: number) {
    for (const worker of pool.members()) {
      this.#byName.set(worker.name, worker);
      this.#byAddress.set(hashText(worker.url, seed), worker);
    }
  }

  /** By its address alone, where that is told. */
  at(name: string, [, , , address]: WorkerReport): Worker | undefined {
    return address === undefined ? this.#byName.get(name) : this.#byAddress.get(address);
  }

  /** By its address. One that is configured may have another one for each router; then its name says who it is. */
  meant(name: string, [, , , address]: WorkerReport): Worker | undefined {
    const named = this.#byName.get(name);
    if (address === undefined) return named;
    return this.#byAddress.get(address) ?? (named?.origin === "config" ? named : undefined);
  }
}

/** Moves each worker's share towards the mean. */
function level(workers: readonly Worker[]): void {
  let requests = 0;
  let tokens = 0;
  for (const { elsewhere } of workers) {
    requests += elsewhere.requests;
    tokens += elsewhere.tokens;
  }
  const rest = (1 - SHARPNESS) / workers.length;
  for (const worker of workers) {
    const { elsewhere } = worker;
    elsewhere.requests = SHARPNESS * elsewhere.requests + rest * requests;
    elsewhere.tokens = SHARPNESS * elsewhere.tokens + rest * tokens;
    worker.pull = pullOf(worker);
  }
}
