/** Something one router tells all others about one pool. */
export interface OutRecord {
  /** What it is and whose, e.g. `load:<router>`; a record replaces the one of the same key. */
  key: string;
  text: string;
  /** How long the store keeps it when it is not renewed. */
  ttlMs: number;
}

export interface InRecord {
  key: string;
  text: string;
  /** Since it was written, by the store's clock: routers' clocks need not agree. */
  ageMs: number;
}

export interface Exchanged {
  /** Another number means another store than before: it knows nothing of what was written, and the cursor nothing of it. */
  epoch: number;
  /** For the next exchange's `since`; means nothing but to the store. */
  cursor: number;
  /** What has been written since, one's own included. */
  records: InRecord[];
}

/**
 * What routers share: a notice board per topic (a pool). One call writes and reads, so that a pool costs a router one message a second.
 * No router needs it to serve a request: whoever cannot reach it goes on with what it knows by itself.
 */
export interface SharedStore {
  /** `since` 0 = everything. Rejects when the store cannot be reached; the caller limits how long it waits. */
  exchange(topic: string, write: readonly OutRecord[], since: number): Promise<Exchanged>;
  /** Lets go of connections. */
  close?(): Promise<void>;
}

/** A longer text is no report of a router; stores and readers drop it. */
export const MOST_TEXT = 131_072;
/** Records of one topic: two per router. */
export const MOST_RECORDS = 8_192;

/** Opens the store that the configuration names; connects when it is first used, and again whenever the connection is lost. */
export type OpenStore = (options: { url: string; password: string | undefined }) => SharedStore;
