import { Pieces } from "../../src/json/pieces.ts";
import { Leg, type LegOptions } from "../../src/legs/leg.ts";
import type { Transport, TransportRequest } from "../../src/legs/transport.ts";
import { ManualClock } from "../manual-clock.ts";

const encoder = new TextEncoder();

/** One request as it reached the transport, and its answer, given by hand. */
export class HandRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body: string;
  readonly signal: AbortSignal;
  readonly answer: Promise<Response>;
  /** Chunks the reader has asked for. */
  pulls = 0;
  /** The reader has cancelled the body, or the request was aborted. */
  closed = false;
  #resolve: (response: Response) => void;
  #reject: (error: unknown) => void;
  #ready: (Uint8Array | "end" | Error)[] = [];
  #asked: (() => void) | undefined;

  constructor(url: string, request: TransportRequest) {
    this.url = url;
    this.method = request.method;
    this.headers = request.headers;
    this.body = typeof request.body === "string" ? request.body : "";
    this.signal = request.signal;
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.answer = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    request.signal.addEventListener("abort", () => {
      this.closed = true;
      reject(request.signal.reason);
      this.#give(new Error("aborted"));
    });
  }

  /** Nothing was sent: nobody listens there. */
  refuse(): void {
    this.#reject(Object.assign(new Error("Unable to connect"), { code: "ConnectionRefused" }));
  }

  /** Closed before a byte of an answer. */
  reset(): void {
    this.#reject(Object.assign(new Error("The socket connection was closed unexpectedly"), { code: "ECONNRESET" }));
  }

  /** A whole answer with its length. */
  whole(text: string, status = 200, headers: Record<string, string> = {}): void {
    const length = String(encoder.encode(text).length);
    this.#resolve(
      new Response(text, {
        status,
        headers: { "content-type": "application/json", "content-length": length, ...headers },
      }),
    );
  }

  json(value: unknown, status = 200, headers: Record<string, string> = {}): void {
    this.whole(JSON.stringify(value), status, headers);
  }

  /** The head of an answer whose body comes by `push`, `end`, `cut`. */
  head(headers: Record<string, string> = {}, status = 200): this {
    const body = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          this.pulls++;
          while (this.#ready.length === 0) {
            await new Promise<void>((resolve) => {
              this.#asked = resolve;
            });
          }
          const next = this.#ready.shift()!;
          if (next === "end") controller.close();
          else if (next instanceof Error) controller.error(next);
          else controller.enqueue(next);
        },
        cancel: () => {
          this.closed = true;
        },
      },
      { highWaterMark: 0 },
    );
    this.#resolve(new Response(body, { status, headers: { "content-type": "text/event-stream", ...headers } }));
    return this;
  }

  push(...chunks: (string | Uint8Array)[]): this {
    for (const chunk of chunks) this.#give(typeof chunk === "string" ? encoder.encode(chunk) : chunk);
    return this;
  }

  end(): void {
    this.#give("end");
  }

  cut(): void {
    this.#give(Object.assign(new Error("The connection was reset"), { code: "ECONNRESET" }));
  }

  #give(what: Uint8Array | "end" | Error): void {
    this.#ready.push(what);
    this.#asked?.();
  }
}

/** A transport that records what is sent and answers nothing by itself. */
export class HandTransport implements Transport {
  readonly requests: HandRequest[] = [];
  connects?: (url: string, ms: number) => Promise<boolean>;

  readonly fetch = (url: string, request: TransportRequest): Promise<Response> => {
    const made = new HandRequest(url, request);
    this.requests.push(made);
    this.onRequest?.(made);
    return made.answer;
  };

  /** Answers by rule; called in the tick of the request. */
  onRequest: ((request: HandRequest) => void) | undefined;

  get last(): HandRequest {
    return this.requests.at(-1)!;
  }
}

export interface HandLeg {
  leg: Leg;
  clock: ManualClock;
  transport: HandTransport;
  /** What the leg sent; made by `leg.open()`. */
  engine(): HandRequest;
}

export function handLeg(more: Partial<LegOptions> = {}): HandLeg {
  const clock = new ManualClock();
  const transport = new HandTransport();
  const leg = new Leg({
    role: "decode",
    worker: "d1",
    url: "http://d1:8000/v1/chat/completions",
    headers: { "content-type": "application/json" },
    body: new Pieces(["{}"]),
    connectMs: 5_000,
    transport,
    clock,
    ...more,
  });
  return { leg, clock, transport, engine: () => transport.last };
}

/** The error a promise rejects with; throws when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("Expected a rejection");
}
