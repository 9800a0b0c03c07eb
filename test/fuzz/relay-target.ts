import { createParser } from "eventsource-parser";
import { createRouter } from "../../src/create-router.ts";
import type { Api } from "../../src/sse/api.ts";
import { apis, paths, requestBody } from "../faults/streams.ts";
import { chunksOf } from "./mutate.ts";
import { streamSeeds, streamWords } from "./sse-target.ts";
import { check, type Target } from "./target.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
/** Nothing in-process takes a hundredth of it. */
const HANG_MS = 5_000;

const END: Readonly<Record<Api, string>> = {
  chat: "data: [DONE]\n\n",
  completions: "data: [DONE]\n\n",
  generate: "data: [DONE]\n\n",
  responses: "",
  messages: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
};

let chunks: Uint8Array[] = [];
let prefillStatus = 200;

/** A whole router, whose engines say what the fuzzer wants. */
const router = createRouter({
  config: {
    models: [
      { id: "m", pools: [{ engine: "openai", workers: ["http://w:1"] }] },
      {
        id: "s",
        pools: [{ engine: "sglang", prefill: [{ url: "http://p:1", bootstrapPort: 8998 }], decode: ["http://d:1"] }],
      },
    ],
    retries: { maxRetries: 0 },
    breaker: { enabled: false },
    health: { intervalMs: 0 },
    timeouts: { settleMs: 50 },
    log: { level: "silent" },
  },
  transport: {
    async fetch(url) {
      if (url.startsWith("http://p:1")) {
        return Response.json(
          { choices: [{ index: 0, finish_reason: "length", message: {} }] },
          { status: prefillStatus },
        );
      }
      const rest = chunks.slice();
      const body = new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            const chunk = rest.shift();
            if (chunk === undefined) controller.close();
            else controller.enqueue(chunk);
          },
        },
        { highWaterMark: 0 },
      );
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
  },
});

/**
 * Whatever decode sends, in whatever pieces: the client gets a real error, or a stream that is decode's own bytes up to some event, then
 * nothing but one error frame or the missing end mark. Never a good end without a finish, never two frames, never a hang.
 */
export const relayTarget: Target = {
  name: "relay",
  seeds: streamSeeds,
  words: streamWords,
  async run(input, random) {
    const api = random.pick(apis);
    const split = random.next() < 0.3;
    chunks = chunksOf(random, input).filter(({ length }) => length > 0);
    prefillStatus = split && random.next() < 0.3 ? 500 : 200;
    const body = requestBody(api, true).replace('"model":"m"', `"model":"${split ? "s" : "m"}"`);
    const request = new Request(`http://router${paths[api]}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const { status, code, bytes } = await within(answer(request));
    if (status !== 200) {
      check(status >= 400 && status < 600 && code !== null && code !== "internal", `status ${status}, code ${code}`);
      return;
    }
    judge(api, input, bytes);
  },
};

async function answer(request: Request) {
  const response = await router.fetch(request);
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { status: response.status, code: response.headers.get("x-router-error-code"), bytes };
}

async function within<T>(answered: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${HANG_MS} ms`)), HANG_MS);
  });
  return Promise.race([answered, limit]).finally(() => clearTimeout(timer));
}

function judge(api: Api, input: Uint8Array, out: Uint8Array): void {
  let same = 0;
  while (same < out.length && out[same] === input[same]) same++;
  const text = decoder.decode(out);
  const end = END[api];
  const own = decoder.decode(out.subarray(same));
  // What is not decode's is the router's: a frame, the end mark, or both. Their first bytes may happen to be what decode went on with.
  const events = eventsOf(text);
  const failures = events.filter(({ type, data }) => isFailure(type, data));
  check(failures.length <= 1, `${failures.length} error frames`);
  const failed = failures[0];
  if (failed === undefined) {
    // Decode's own end mark is an end, too (contract section 5). The router adds no more than the blank line that it lacked.
    check(
      finishes(api, events) || /^[\r\n]*$/.test(own),
      `${api}: a good end without a finish: ${JSON.stringify(text)}`,
    );
    check(
      /^[\r\n]*$/.test(own) || text.endsWith(end),
      `neither decode's bytes nor an end mark: ${JSON.stringify(own)}`,
    );
  } else {
    const behind = events.slice(events.indexOf(failed) + 1).filter((event) => !isDone(event));
    check(behind.length === 0, `${behind.length} events after the error frame`);
  }
  if (end === "data: [DONE]\n\n") {
    check(isDone(events.at(-1)), "no end mark at the end");
    check(events.filter(isDone).length === 1, "not one end mark");
  }
  check(encoder.encode(own).length <= 20_000, "more of the router's than a frame");
}

/** Blanks around it are nobody's harm. */
function isDone(event: Event | undefined): boolean {
  return event?.data.trim() === "[DONE]";
}

interface Event {
  type: string;
  data: string;
}

function eventsOf(text: string): Event[] {
  const events: Event[] = [];
  const parser = createParser({ onEvent: ({ event, data }) => void events.push({ type: event ?? "", data }) });
  parser.feed(text.replace(/^\ufeff/, ""));
  parser.feed("\n");
  return events;
}

function isFailure(type: string, data: string): boolean {
  if (type === "error") return true;
  try {
    const value = JSON.parse(data);
    return typeof value?.error === "object" && value.error !== null && value.choices === undefined;
  } catch {
    return false;
  }
}

const FINISH: Readonly<Record<Api, RegExp>> = {
  chat: /finish_reason/,
  completions: /finish_reason/,
  generate: /finish_reason/,
  responses: /response\.(completed|incomplete)/,
  messages: /stop_reason|message_stop/,
};

function finishes(api: Api, events: readonly Event[]): boolean {
  return events.some(({ data }) => FINISH[api].test(data));
}
