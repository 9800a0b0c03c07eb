import { type Exchanged, MOST_RECORDS, MOST_TEXT, type OutRecord } from "./store.ts";

interface Note {
  text: string;
  version: number;
  writtenAt: number;
  expiresAt: number;
}

/** The records of one topic in memory: what a store means, without a network. Plain state, in milliseconds of whatever clock `now` is. */
export class NoticeBoard {
  readonly #notes = new Map<string, Note>();
  #version = 0;
  #epoch = 0;

  exchange(write: readonly OutRecord[], since: number, now: number): Exchanged {
    this.expire(now);
    this.#epoch ||= Math.floor(now) || 1;
    for (const record of write) this.#put(record, now);
    // A cursor from before a restart, which knew more than there is: everything is new.
    const from = since > this.#version ? 0 : since;
    const records = [];
    for (const [key, { text, version, writtenAt }] of this.#notes) {
      if (version > from) records.push({ key, text, ageMs: Math.max(0, now - writtenAt) });
    }
    return { epoch: this.#epoch, cursor: this.#version, records };
  }

  /** Drops what nobody has renewed. Returns when there is something to drop again; Infinity = never. */
  expire(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const [key, { expiresAt }] of this.#notes) {
      if (expiresAt <= now) this.#notes.delete(key);
      else next = Math.min(next, expiresAt);
    }
    return next;
  }

  /** Puts back what was kept elsewhere. */
  restore(key: string, text: string, writtenAt: number, expiresAt: number): void {
    this.#notes.set(key, { text, writtenAt, expiresAt, version: this.#next(writtenAt) });
  }

  #put({ key, text, ttlMs }: OutRecord, now: number): void {
    if (text.length > MOST_TEXT || (this.#notes.size >= MOST_RECORDS && !this.#notes.has(key))) return;
    this.#notes.set(key, { text, version: this.#next(now), writtenAt: now, expiresAt: now + ttlMs });
  }

  /** Never behind the clock, so that versions grow even over a restart that has forgotten the last one. */
  #next(now: number): number {
    this.#version = Math.max(this.#version + 1, Math.floor(now));
    return this.#version;
  }
}
