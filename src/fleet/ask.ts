import { smallText } from "../legs/small-body.ts";
import type { Transport } from "../legs/transport.ts";
import type { Clock } from "../runtime/clock.ts";

/** Longest wait for an answer about an engine. Nobody's request waits for it. */
const ASK_MS = 5_000;

/** A list of a thousand adapters is a tenth of it. */
const ANSWER_BYTES = 4_194_304;

/** What came of a question: JSON with its status, or nobody who answered. */
export type Told = { status: number; json: unknown } | "unreachable";

/** Asks an engine one GET. Never rejects. `key`: the worker's own, none of any client. */
export type Ask = (url: string, key: string | undefined) => Promise<Told>;

/** `Ask` over the transport that legs use, bounded in time and size; what is larger counts as no JSON. */
export function askOver(transport: Transport, clock: Clock): Ask {
  return async function ask(url, key): Promise<Told> {
    const controller = new AbortController();
    const stop = clock.after(ASK_MS, () => controller.abort());
    const headers: Record<string, string> = { accept: "application/json", "accept-encoding": "identity" };
    if (key !== undefined) headers.authorization = `Bearer ${key}`;
    try {
      const response = await transport.fetch(url, { method: "GET", headers, signal: controller.signal });
      return { status: response.status, json: parsed(await smallText(response, ANSWER_BYTES)) };
    } catch {
      return "unreachable";
    } finally {
      stop();
    }
  };
}

/** Routes an engine does not have answer with any text. */
function parsed(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
