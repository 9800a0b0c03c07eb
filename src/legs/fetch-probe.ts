import type { Clock } from "../runtime/clock.ts";
import type { FetchProbe } from "../workers/prober.ts";
import { smallText } from "./small-body.ts";
import type { Transport } from "./transport.ts";

/** For metrics. */
export type ProbeObserver = (worker: string, result: "ok" | "failed" | "timeout" | "unreachable") => void;

/** Read to its end so that the connection can be used again, up to here. */
const ANSWER_BYTES = 1_048_576;

/** Health probes over the same transport as legs, with the worker's own key and nothing of any client. */
export function fetchProbe(transport: Transport, clock: Clock, seen: ProbeObserver = nobody): FetchProbe {
  return async function probe(worker, path, timeoutMs) {
    const controller = new AbortController();
    let timedOut = false;
    const stop = clock.after(timeoutMs, () => {
      timedOut = true;
      controller.abort();
    });
    const headers: Record<string, string> = { "accept-encoding": "identity" };
    if (worker.apiKey !== undefined) headers.authorization = `Bearer ${worker.apiKey}`;
    try {
      const response = await transport.fetch(worker.url + path, { method: "GET", headers, signal: controller.signal });
      await smallText(response, ANSWER_BYTES);
      seen(worker.name, response.ok ? "ok" : "failed");
      return { kind: "answer", status: response.status };
    } catch {
      seen(worker.name, timedOut ? "timeout" : "unreachable");
      return { kind: timedOut ? "timeout" : "error" };
    } finally {
      stop();
    }
  };
}

function nobody(): void {}
