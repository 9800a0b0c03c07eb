import type { Clock } from "../runtime/clock.ts";
import type { Fleet } from "../workers/fleet.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker } from "../workers/worker.ts";
import { type LoadReport, readReport, writeReport } from "./load-report.ts";
import { divideMarks } from "./mark-records.ts";
import { MARK_MS, type Mark, markKey, readMarks } from "./marks.ts";
import type { PrefixSketch } from "./prefix-sketch.ts";
import { seal, unseal } from "./seal.ts";
import { type InRecord, MOST_TEXT, type OutRecord, type SharedStore } from "./store.ts";
import { BUSY_MS, JITTER, PATIENCE_MS, REST_MS, Topic } from "./topic.ts";

const RETRY_MS = 1_000;
/** Reports of a router that has died are gone from the store after that; readers stop believing them sooner (`Topic`). */
const LOAD_TTL_MS = 15_000;
/** Marks are written again now and then, in case the store has lost them without a word. */
const MARKS_AGAIN_MS = 60_000;
const LOAD = "load:";
const MARKS = "marks:";

export interface SharedStateOptions {
  store: SharedStore;
  fleet: Fleet;
  clock: Clock;
  /** Milliseconds since 1970. */
  wallNow(): number;
  random(): number;
  /** What marks are signed with, the admin key; undefined: this router has no admin routes, and obeys none of other routers'. */
  secret(): string | undefined;
  sketch: PrefixSketch;
  /** Another router's operator has done something to a worker. May throw: then the mark has no effect here. */
  act(pool: Pool, mark: Mark): void;
  /** Each exchange, as it ends: the store has answered, or it has not. */
  onExchange?(answered: boolean): void;
  /** The store can be reached again, or no longer; told when it changes. */
  onReach?(reached: boolean, why: string | undefined): void;
  /** `act` has thrown; told once for each mark. */
  onRefused?(mark: Mark, why: string): void;
  /** So many marks of this router had no room in the store, or all have again (0); told when it changes. */
  onUntold?(pool: Pool, marks: number): void;
}

/**
 * What this router tells the others about its pools, and what it makes of what they tell. It starts nothing by itself: `run` is called
 * often and does what is due. Without a store that answers everything fades to what the router knows by itself; nothing here ever fails a
 * request (`docs/consistency.md`).
 */
export class SharedState {
  readonly #o: SharedStateOptions;
  readonly #topics = new Map<string, Topic>();
  #id = "";
  #reached: boolean | undefined;
  #closed = false;

  constructor(options: SharedStateOptions) {
    this.#o = options;
  }

  /** Starts the exchanges that are due, at most so many. The promise is for platforms that keep work alive; it never rejects. */
  run(atMost = Number.POSITIVE_INFINITY): Promise<unknown> {
    if (this.#closed) return Promise.resolve();
    const now = this.#o.clock.now();
    // Not before: on Workers there is no randomness outside of requests.
    if (this.#id === "") this.#id = Math.floor(this.#o.random() * 2 ** 52).toString(36);
    const started: Promise<unknown>[] = [];
    for (const pool of this.#o.fleet.allPools()) {
      const topic = this.#topic(pool, now);
      topic.apply(now);
      if (topic.startedAt !== undefined && now - topic.startedAt >= PATIENCE_MS)
        this.#lost(topic, "no answer in time", now);
      if (topic.startedAt !== undefined || now < topic.nextAt || started.length >= atMost) continue;
      started.push(this.#exchange(topic, now));
    }
    if (this.#topics.size > this.#o.fleet.allPools().length) this.#forgetPools();
    return Promise.all(started);
  }

  /** Tells the others what an operator has done to a worker through this router. */
  mark(worker: Worker, mark: Omit<Mark, "at" | "worker" | "url">): void {
    const pool = this.#o.fleet.model(worker.model)?.pools.find(({ name }) => name === worker.pool);
    if (pool === undefined) return;
    const topic = this.#topic(pool, this.#o.clock.now());
    topic.own(topic.marks.make({ ...mark, worker: worker.name, url: worker.url }, this.#o.wallNow()));
    topic.marksDue = true;
    topic.nextAt = Math.min(topic.nextAt, (topic.endedAt ?? Number.NEGATIVE_INFINITY) + BUSY_MS);
  }

  /** Gives the order to drain, unless it stands: whoever wants to know how far a worker is gives it again and again. */
  drain(worker: Worker, draining: boolean): void {
    if (!draining || this.#drainOf(worker) === undefined) this.mark(worker, { what: "drain" });
  }

  /** As far as is known no other router has anything in hand there, nor will have; see `Topic.drained`. */
  drained(worker: Worker): boolean {
    const drain = this.#drainOf(worker);
    return drain?.topic.drained(worker, drain.mark, this.#o.clock.now()) ?? false;
  }

  /** The order to drain it, if it stands. */
  #drainOf(worker: Worker): { topic: Topic; mark: Mark } | undefined {
    const pool = this.#o.fleet.model(worker.model)?.pools.find(({ name }) => name === worker.pool);
    const topic = pool && this.#topics.get(pool.topic);
    const mark = topic?.marks.about(worker.url, this.#o.wallNow());
    return topic !== undefined && mark?.what === "drain" ? { topic, mark } : undefined;
  }

  /**
   * The configuration has been read again. Who it has brought back has left no longer: a router that begins later must not take it out once
   * more. Those that keep it out do so until they read it themselves, so the mark says nothing of how to join.
   */
  reloaded(): void {
    for (const pool of this.#o.fleet.allPools()) {
      const marks = this.#topics.get(pool.topic)?.marks;
      for (const worker of pool.members()) {
        if (marks?.about(worker.url, this.#o.wallNow())?.what === "leave") this.mark(worker, { what: "join" });
      }
    }
  }

  /** An address is no longer listed by the DNS. */
  gone(model: string, pool: string, url: string): void {
    const known = this.#o.fleet.model(model)?.pools.find(({ name }) => name === pool);
    if (known !== undefined) this.#topics.get(known.topic)?.gone(url);
  }

  /** Routers that have said something about a pool lately, this one not counted; for people. */
  routers(pool: Pool): number {
    return this.#topics.get(pool.topic)?.others ?? 0;
  }

  /** The last word: a store that is let go of must not be opened again by the next look at what is due. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#o.store.close?.() ?? Promise.resolve();
  }

  async #exchange(topic: Topic, now: number): Promise<void> {
    const turn = topic.begin(now);
    const { store, clock } = this.#o;
    try {
      const write = await this.#records(topic, now);
      const since = topic.cursor;
      const { epoch, cursor, records } = await store.exchange(topic.pool.topic, write, since);
      // A later turn has begun since: what this one says is old.
      if (turn !== topic.turn) return;
      if (!Number.isFinite(cursor) || !Number.isFinite(epoch))
        throw new Error("The store answered with something else");
      const at = clock.now();
      const marks: Mark[] = [];
      for (const record of records) marks.push(...(await this.#take(topic, record, at)));
      if (since === 0) topic.readWhole(new Set(records.map(({ key }) => key)));
      // In their order, whoever made them: a worker that left may have come back under another address.
      for (const mark of marks.sort((a, b) => a.at - b.at)) {
        topic.marks.stored(mark, at);
        this.#obey(topic, mark);
      }
      topic.succeeded({ epoch, cursor }, at);
      topic.nextAt = at + this.#jittered(topic.spoke || topic.marksDue ? BUSY_MS : REST_MS);
      topic.apply(at, true);
      this.#reach(true, undefined);
    } catch (error) {
      if (turn === topic.turn) this.#lost(topic, error instanceof Error ? error.message : String(error), clock.now());
    }
  }

  /** What is to be said now: nothing, as long as a pool is idle and was so before. */
  async #records(topic: Topic, now: number): Promise<OutRecord[]> {
    const records: OutRecord[] = [];
    const prefixes = this.#o.sketch.news(topic.pool.topic);
    const report: LoadReport = { workers: topic.loads(now), prefixes, turn: topic.turn };
    const speaks = report.workers.size > 0 || report.prefixes.size > 0;
    if (speaks || topic.spoke) records.push({ key: LOAD + this.#id, text: writeReport(report), ttlMs: LOAD_TTL_MS });
    topic.spoke = speaks;
    if (topic.marksDue || now >= topic.marksToldAt + MARKS_AGAIN_MS) records.push(...(await this.#marks(topic, now)));
    return records;
  }

  /** This router's marks, and nothing in the place of records that it needs no longer. */
  async #marks(topic: Topic, now: number): Promise<OutRecord[]> {
    const secret = this.#o.secret();
    const { texts, told, untold } = divideMarks(topic.ownMarks(this.#o.wallNow()));
    const count = Math.max(texts.length, topic.marksWritten);
    if (secret === undefined || count === 0) {
      topic.marksDue = false;
      return [];
    }
    topic.telling(texts.length, told, now);
    if (topic.marksUntold !== untold > 0) this.#o.onUntold?.(topic.pool, untold);
    topic.marksUntold = untold > 0;
    const sealed = Array.from({ length: count }, (_, n) => seal(texts[n] ?? "[]", topic.pool.topic, secret));
    const records = (await Promise.all(sealed)).map((text, n) => ({ key: this.#marksKey(n), text, ttlMs: MARK_MS }));
    // The latest last: routers of an earlier version obey them in this order.
    return records.reverse();
  }

  #marksKey(n: number): string {
    return n === 0 ? MARKS + this.#id : `${MARKS}${this.#id}:${n + 1}`;
  }

  /**
   * Takes in a report, or returns the marks of a record. Whatever stands in it, it throws nothing: it was written by somebody else, perhaps
   * by somebody who means ill.
   */
  async #take(topic: Topic, { key, text, ageMs }: InRecord, now: number): Promise<Mark[]> {
    if (typeof key !== "string" || typeof text !== "string" || text.length > MOST_TEXT || !Number.isFinite(ageMs))
      return [];
    const [, kind, router] = /^(load:|marks:)([^:]*)/.exec(key) ?? [];
    if (router === this.#id) return [];
    if (kind === MARKS) {
      const secret = this.#o.secret();
      const plain = secret === undefined ? undefined : await unseal(text, topic.pool.topic, secret);
      return (plain === undefined ? undefined : readMarks(plain)) ?? [];
    }
    const report = kind === LOAD ? readReport(text) : undefined;
    if (report === undefined) return [];
    if (!topic.heard(key, report, now - Math.max(0, ageMs)) || report.prefixes.size === 0) return [];
    const names = topic.names();
    for (const [worker, hashes] of report.prefixes) {
      if (names.has(worker)) this.#o.sketch.learn(topic.pool.topic, worker, hashes, now);
    }
    return [];
  }

  #obey(topic: Topic, mark: Mark): void {
    if (mark.at < this.#o.wallNow() - MARK_MS || !topic.marks.take(mark)) return;
    try {
      this.#o.act(topic.pool, mark);
      topic.refused.delete(markKey(mark));
    } catch (error) {
      // A name or an address that is taken here: this router's own configuration comes first. It may be free when the mark comes again.
      topic.marks.forget(mark);
      if (topic.refused.get(markKey(mark)) === mark.at) return;
      topic.refused.set(markKey(mark), mark.at);
      this.#o.onRefused?.(mark, error instanceof Error ? error.message : String(error));
    }
  }

  /** A worker is here that was not: what was said of it before holds for it. */
  joined(worker: Worker): void {
    const pool = this.#o.fleet.model(worker.model)?.pools.find(({ name }) => name === worker.pool);
    const mark = pool && this.#topics.get(pool.topic)?.marks.about(worker.url, this.#o.wallNow());
    if (pool !== undefined && mark !== undefined && mark.what !== "join") this.#o.act(pool, mark);
  }

  #lost(topic: Topic, why: string, now: number): void {
    topic.failed(now + this.#jittered(RETRY_MS));
    this.#reach(false, why);
  }

  #reach(reached: boolean, why: string | undefined): void {
    this.#o.onExchange?.(reached);
    if (this.#reached === reached) return;
    const first = this.#reached === undefined;
    this.#reached = reached;
    if (!first || !reached) this.#o.onReach?.(reached, why);
  }

  /** Never sooner than asked, and not all routers at once. */
  #jittered(ms: number): number {
    return ms * (1 + JITTER * this.#o.random());
  }

  #topic(pool: Pool, now: number): Topic {
    const key = pool.topic;
    const known = this.#topics.get(key);
    if (known !== undefined) {
      known.pool = pool;
      return known;
    }
    const topic = new Topic(pool, now, this.#o.sketch.seed);
    this.#topics.set(key, topic);
    return topic;
  }

  #forgetPools(): void {
    const there = new Set(this.#o.fleet.allPools().map(({ topic }) => topic));
    for (const key of this.#topics.keys()) if (!there.has(key)) this.#topics.delete(key);
  }
}
