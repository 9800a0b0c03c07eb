import * as v from "valibot";
import { NoticeBoard } from "../shared/notice-board.ts";
import { type Exchanged, MOST_RECORDS, type OutRecord } from "../shared/store.ts";

/** The part of a Durable Object's storage that is used here. */
interface Storage {
  list(options: { prefix: string }): Promise<Map<string, unknown>>;
  put(entries: Record<string, unknown>): Promise<void>;
  delete(keys: string[]): Promise<number>;
  getAlarm(): Promise<number | null>;
  setAlarm(at: number): Promise<void>;
}

interface ObjectState {
  storage: Storage;
  blockConcurrencyWhile(work: () => Promise<void>): Promise<void>;
}

/** What is to last longer has to survive the object's own end, and is stored; load reports are old by then. */
const KEPT_MS = 60_000;
const PREFIX = "record:";
/** The platform writes and deletes so many keys at once at most. */
const BATCH = 128;

const kept = v.object({ text: v.string(), writtenAt: v.number(), expiresAt: v.number() });
const exchange = v.object({
  since: v.pipe(v.number(), v.finite()),
  write: v.pipe(
    v.array(v.object({ key: v.string(), text: v.string(), ttlMs: v.pipe(v.number(), v.minValue(1)) })),
    v.maxLength(16),
  ),
});

/**
 * A Durable Object per pool: the notice board of the routers (isolates) that send requests there. In memory while it lives; marks are
 * stored, and an alarm takes away those whose time is over, also when nobody asks any more.
 */
export class PoolState {
  readonly #storage: Storage;
  readonly #keptMs: number;
  readonly #board = new NoticeBoard();

  /** The platform makes it, with its environment as the second argument; `keptMs` is for tests. */
  constructor(state: ObjectState, _env?: unknown, keptMs = KEPT_MS) {
    this.#storage = state.storage;
    this.#keptMs = keptMs;
    // Before the first request is let in.
    void state.blockConcurrencyWhile(() => this.#restore());
  }

  async fetch(request: Request): Promise<Response> {
    let body: unknown;
    try {
      body = await request.json();
    } catch {
      return new Response("wanted JSON", { status: 400 });
    }
    const asked = v.safeParse(exchange, body);
    if (!asked.success) return new Response("wanted an exchange", { status: 400 });
    const now = Date.now();
    const { write, since } = asked.output;
    const answer: Exchanged = this.#board.exchange(write, since, now);
    await this.#keep(write, now);
    return Response.json(answer);
  }

  /** Its time has come to look what is over. */
  async alarm(): Promise<void> {
    const now = Date.now();
    this.#board.expire(now);
    let next = Number.POSITIVE_INFINITY;
    const over: string[] = [];
    for (const [key, value] of await this.#storage.list({ prefix: PREFIX })) {
      const read = v.safeParse(kept, value);
      if (read.success && read.output.expiresAt > now) next = Math.min(next, read.output.expiresAt);
      else over.push(key);
    }
    for (let at = 0; at < over.length; at += BATCH) await this.#storage.delete(over.slice(at, at + BATCH));
    if (next !== Number.POSITIVE_INFINITY) await this.#storage.setAlarm(next);
  }

  async #restore(): Promise<void> {
    const now = Date.now();
    for (const [key, value] of await this.#storage.list({ prefix: PREFIX })) {
      const read = v.safeParse(kept, value);
      if (!read.success || read.output.expiresAt <= now) continue;
      const { text, writtenAt, expiresAt } = read.output;
      this.#board.restore(key.slice(PREFIX.length), text, writtenAt, expiresAt);
    }
  }

  async #keep(write: readonly OutRecord[], now: number): Promise<void> {
    const lasting = write.filter(({ ttlMs }) => ttlMs > this.#keptMs).slice(0, MOST_RECORDS);
    if (lasting.length === 0) return;
    await this.#storage.put(
      Object.fromEntries(
        lasting.map(({ key, text, ttlMs }) => [PREFIX + key, { text, writtenAt: now, expiresAt: now + ttlMs }]),
      ),
    );
    const first = now + Math.min(...lasting.map(({ ttlMs }) => ttlMs));
    const alarm = await this.#storage.getAlarm();
    if (alarm === null || alarm > first) await this.#storage.setAlarm(first);
  }
}
