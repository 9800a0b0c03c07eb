import { NoticeBoard } from "./notice-board.ts";
import type { Exchanged, OutRecord, SharedStore } from "./store.ts";

/** For routers of one process, and for tests. */
export class MemoryStore implements SharedStore {
  readonly #boards = new Map<string, NoticeBoard>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async exchange(topic: string, write: readonly OutRecord[], since: number): Promise<Exchanged> {
    let board = this.#boards.get(topic);
    if (board === undefined) {
      board = new NoticeBoard();
      this.#boards.set(topic, board);
    }
    return board.exchange(write, since, this.#now());
  }
}
