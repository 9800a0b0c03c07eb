import type { MeetOutcome, ReadOutcome } from "./side-channel.ts";
import { ClientLeft } from "./time.ts";

/** What a decode engine can ask of the prefill engine that holds its blocks. */
export interface SidePeer {
  /** Waits in a room until the blocks are there. Rejects with ClientLeft, or with PeerUnreachable. */
  meet(room: string, prompt: string, signal: AbortSignal): Promise<MeetOutcome>;
  /** Reads the blocks of a hand-off, once. Rejects with PeerUnreachable. */
  read(id: string, object: string, prompt: string, signal?: AbortSignal): Promise<ReadOutcome>;
}

/** Nobody answers on the side channel: prefill is gone, or the hand-off names a wrong address. */
export class PeerUnreachable extends Error {
  override readonly name = "PeerUnreachable";
  constructor(address: string, cause: unknown) {
    super(`No prefill engine answers at "${address}"`, { cause });
  }
}

/**
 * The side channel of a prefill engine in another process, asked over its bootstrap port (`sideChannelHandler` answers).
 * The transport is small on purpose: a decode that hangs up closes its request, and prefill's room sees exactly that.
 */
export class RemoteSideChannel implements SidePeer {
  readonly #address: string;
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>;

  constructor(host: string, port: number, fetcher: (url: string, init: RequestInit) => Promise<Response>) {
    const bare = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
    this.#address = `http://${bare}:${port}`;
    this.#fetch = fetcher;
  }

  async meet(room: string, prompt: string, signal: AbortSignal): Promise<MeetOutcome> {
    return (await this.#ask(`/rooms/${encodeURIComponent(room)}`, { prompt }, signal)) as MeetOutcome;
  }

  async read(id: string, object: string, prompt: string, signal?: AbortSignal): Promise<ReadOutcome> {
    return (await this.#ask(`/handoffs/${encodeURIComponent(id)}`, { object, prompt }, signal)) as ReadOutcome;
  }

  async #ask(path: string, body: Record<string, string>, signal: AbortSignal | undefined): Promise<string> {
    try {
      const init: RequestInit = {
        method: "POST",
        headers: { "content-type": "application/json", connection: "close" },
        body: JSON.stringify(body),
        redirect: "manual",
      };
      const response = await this.#fetch(this.#address + path, signal === undefined ? init : { ...init, signal });
      const answer = (await response.json()) as { outcome?: unknown };
      if (typeof answer.outcome !== "string") throw new Error(`Expected an outcome, got status ${response.status}`);
      return answer.outcome;
    } catch (error) {
      if (signal?.aborted) throw new ClientLeft();
      throw new PeerUnreachable(this.#address, error);
    }
  }
}
