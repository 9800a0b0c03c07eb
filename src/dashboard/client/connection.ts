import type { Update } from "../update.ts";

export interface ConnectionEvents {
  update(update: Update): void;
  /** The router wants the admin key; `wrong`: the one it was given is not it. The connection has stopped. */
  keyNeeded(wrong: boolean): void;
  /** The router does not let us in for another reason, or there is none; it is tried again. */
  trouble(text: string): void;
}

const KEY = "prefill-router-admin-key";
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;

/**
 * The stream of updates, by `fetch`: an `EventSource` cannot send a key. It is open only while the page can be seen, so that a tab
 * that was forgotten costs the router nothing.
 */
export class Connection {
  readonly #events: ConnectionEvents;
  #abort: AbortController | undefined;
  #wait = FIRST_WAIT_MS;

  constructor(events: ConnectionEvents) {
    this.#events = events;
  }

  get hasKey(): boolean {
    return sessionStorage.getItem(KEY) !== null;
  }

  /** Kept for this tab only, and never in an address. */
  useKey(key: string): void {
    sessionStorage.setItem(KEY, key);
    this.open();
  }

  forgetKey(): void {
    sessionStorage.removeItem(KEY);
    this.open();
  }

  open(): void {
    this.close();
    const abort = new AbortController();
    this.#abort = abort;
    void this.#run(abort.signal);
  }

  close(): void {
    this.#abort?.abort();
    this.#abort = undefined;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (!(await this.#read(signal))) return;
        this.#events.trouble("The router has closed the stream");
      } catch (error) {
        if (signal.aborted) return;
        this.#events.trouble(error instanceof Error ? error.message : String(error));
      }
      await sleep(this.#wait, signal);
      this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
    }
  }

  /** Resolves with false when there is no use in another try. */
  async #read(signal: AbortSignal): Promise<boolean> {
    const key = sessionStorage.getItem(KEY);
    const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` };
    const response = await fetch("dashboard/events", { headers, signal, cache: "no-store" });
    if (response.status === 401 || response.status === 403) {
      await response.body?.cancel();
      if (!signal.aborted) this.#events.keyNeeded(key !== null);
      return false;
    }
    if (!response.ok || response.body === null) throw new Error(`The router answered ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return true;
      text += value;
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        if (!event.startsWith("data: ")) continue;
        this.#wait = FIRST_WAIT_MS;
        this.#events.update(JSON.parse(event.slice(6)) as Update);
      }
    }
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
