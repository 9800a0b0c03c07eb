/**
 * What a simulated engine answers with: bytes, pauses and an ending, as data. A player (in-process `Response`, or a
 * real socket) performs it. Kept apart from any transport, since a `Response` cannot express an RST or a FIN without
 * terminator, and a socket server needs no engine to be tested.
 */

/** One write. `wait` is awaited first, then `delayMs` passes, then the bytes go out in one piece. */
export interface Step {
  bytes: Uint8Array | string;
  delayMs?: number;
  wait?: Promise<unknown> | (() => Promise<unknown>);
}

/**
 * How the exchange ends once the steps are through:
 * - `clean`: chunked terminator or full content-length; the connection lives on
 * - `fin`: the connection is closed without the terminator
 * - `rst`: the connection is reset
 * - `hang`: nothing more comes, the connection stays open until the client leaves
 */
export type Ending = "clean" | "fin" | "rst" | "hang";

export interface Script {
  status: number;
  headers: readonly (readonly [string, string])[];
  steps: AsyncIterable<Step> | readonly Step[];
  /** Read after the last step: a fault that strikes while the script plays may still change it. */
  ending: Ending;
  /** Milliseconds before the head is sent. */
  headDelayMs?: number;
  /** No status line at all: the ending is everything that happens. */
  noHead?: boolean;
  /** Called by the player exactly once: `sent` when the ending was performed, `aborted` when the client left before. */
  onEnd?: (how: "sent" | "aborted") => void;
}

/** A request as the engine sees it. `signal` aborts when the client's connection is gone. */
export interface SimRequest {
  method: string;
  /** Path without the query string. */
  path: string;
  headers: Headers;
  /** The raw text of the body; it is never parsed and printed again for the log. */
  body: string;
  signal: AbortSignal;
}

/** A complete JSON answer. `text` is the body as it goes out. */
export function jsonScript(status: number, text: string, headers: readonly (readonly [string, string])[] = []): Script {
  const length = String(new TextEncoder().encode(text).byteLength);
  return {
    status,
    headers: [["content-type", "application/json"], ["content-length", length], ...headers],
    steps: text === "" ? [] : [{ bytes: text }],
    ending: "clean",
  };
}

/** A stream of whole SSE events, one write each. */
export function eventStreamScript(steps: AsyncIterable<Step>): Script {
  return { status: 200, headers: [["content-type", "text/event-stream; charset=utf-8"]], steps, ending: "clean" };
}

/** No answer at all: the connection is accepted and then ends as told. */
export function silentScript(ending: Ending): Script {
  return { status: 0, headers: [], steps: [], ending, noHead: true };
}
