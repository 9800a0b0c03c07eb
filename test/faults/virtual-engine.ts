import type { Transport, TransportRequest } from "../../src/legs/transport.ts";
import type { ManualClock } from "../manual-clock.ts";

/** How one answer goes, in the clock's milliseconds. */
export interface LegScript {
  /** No answer at all, in a way of its own; `answers`: a status line comes. */
  start: "refused" | "reset" | "silence" | "answers";
  /** From the request to its head, or to its fault before it. */
  headMs: number;
  status: number;
  headers: Record<string, string>;
  /** What goes out after the head, each piece some time after the one before. */
  pieces: readonly { afterMs: number; bytes: Uint8Array }[];
  /** `cut`: the transport breaks. `silence`: nothing more comes, ever. */
  ending: "clean" | "cut" | "silence";
  /** From the last piece. */
  endMs: number;
}

/** A request to an engine, and whether the router still has it open. */
export interface VirtualRequest {
  readonly worker: string;
  readonly body: string;
  readonly script: LegScript;
  readonly at: number;
  /** Closed by the router, or over by itself. */
  closedAt: number | undefined;
}

/** Engines in-process, on a clock that the test moves. Bytes wait for their reader, as they would in a kernel. */
export class VirtualEngines implements Transport {
  readonly requests: VirtualRequest[] = [];
  readonly #clock: ManualClock;
  readonly #script: (worker: string, body: string, count: number) => LegScript;

  constructor(clock: ManualClock, script: (worker: string, body: string, count: number) => LegScript) {
    this.#clock = clock;
    this.#script = script;
  }

  get open(): VirtualRequest[] {
    return this.requests.filter(({ closedAt }) => closedAt === undefined);
  }

  readonly fetch = async (url: string, { body, signal }: TransportRequest): Promise<Response> => {
    const clock = this.#clock;
    const worker = new URL(url).hostname;
    const count = this.requests.filter((earlier) => earlier.worker === worker).length;
    const script = this.#script(worker, String(body), count);
    const request: VirtualRequest = { worker, body: String(body), script, at: clock.now(), closedAt: undefined };
    this.requests.push(request);
    const close = () => {
      request.closedAt ??= clock.now();
    };
    const aborted = new Promise<never>((_, reject) => {
      const leave = () => {
        close();
        reject(new DOMException("The operation was aborted", "AbortError"));
      };
      if (signal.aborted) leave();
      else signal.addEventListener("abort", leave, { once: true });
    });
    aborted.catch(() => {});
    const wait = (ms: number) =>
      Promise.race([aborted, new Promise<void>((resolve) => void clock.after(Math.max(0, ms), resolve))]);

    if (script.start === "silence") await aborted;
    await wait(script.headMs);
    if (script.start !== "answers") {
      close();
      throw Object.assign(new Error(script.start), {
        code: script.start === "refused" ? "ECONNREFUSED" : "ECONNRESET",
      });
    }
    let due = clock.now();
    let next = 0;
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const piece = script.pieces[next++];
          if (piece !== undefined) {
            due += piece.afterMs;
            await wait(due - clock.now());
            controller.enqueue(piece.bytes);
            return;
          }
          if (script.ending === "silence") await aborted;
          await wait(due + script.endMs - clock.now());
          close();
          if (script.ending === "cut") controller.error(new Error("read ECONNRESET"));
          else controller.close();
        },
        cancel: close,
      },
      { highWaterMark: 0 },
    );
    return new Response(stream, { status: script.status, headers: script.headers });
  };
}
