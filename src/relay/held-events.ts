import type { SeenEvent } from "./held-event.ts";

/** Chunks that carry no answer are held back so long (contract section 5). */
const HELD_EVENTS = 16;
const HELD_BYTES = 65_536;

/** Events that wait: for the answer that commits the status, or at the end for prefill's tail. */
export class HeldEvents {
  #events: SeenEvent[] = [];
  #bytes = 0;
  #dispatched = 0;

  hold(seen: SeenEvent): void {
    this.#events.push(seen);
    this.#bytes += seen.bytes.length;
    // A comment is not an event: an engine's pings must not commit a status.
    if (seen.parsed.data !== undefined) this.#dispatched++;
  }

  /** The status is committed without an answer: too much has been held back. */
  get full(): boolean {
    return this.#dispatched >= HELD_EVENTS || this.#bytes >= HELD_BYTES;
  }

  get bytes(): number {
    return this.#bytes;
  }

  take(): readonly SeenEvent[] {
    const events = this.#events;
    this.#events = [];
    this.#bytes = 0;
    return events;
  }
}
