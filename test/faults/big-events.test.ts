import { expect, test } from "bun:test";
import { createRouter } from "../../src/create-router.ts";
import type { Transport } from "../../src/legs/transport.ts";
import type { Api } from "../../src/sse/api.ts";
import { judge, type Seen } from "./oracle.ts";
import { answerBody, answerEvents, contentEvent, paths, requestBody, type ScriptedEvent } from "./streams.ts";

const MIB = 1_048_576;

/** Decode's bytes in pieces of one size, as fast as they are read. */
function piecewise(bytes: Buffer, size: number): Transport {
  return {
    fetch: () => {
      let at = 0;
      const stream = new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            if (at >= bytes.length) return controller.close();
            controller.enqueue(bytes.subarray(at, at + size));
            at += size;
          },
        },
        { highWaterMark: 0 },
      );
      return Promise.resolve(new Response(stream, { headers: { "content-type": "text/event-stream" } }));
    },
  };
}

async function askWith(transport: Transport, api: Api, eventBytes?: number): Promise<Seen> {
  const router = createRouter({
    config: {
      models: [{ id: "m", pools: [{ name: "default", engine: "openai", workers: [{ url: "http://one" }] }] }],
      retries: { maxRetries: 0 },
      health: { intervalMs: 0 },
      limits: eventBytes === undefined ? {} : { eventBytes },
    },
    transport,
  });
  router.tendsWithRequests = false;
  const response = await router.fetch(
    new Request(`http://router${paths[api]}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: requestBody(api, true),
    }),
  );
  const body = Buffer.from(await response.arrayBuffer());
  expect(router.active()).toBe(0);
  return { status: response.status, headers: response.headers, body, whole: true, flaw: "" };
}

function withBig(api: Api, before: number, length: number): ScriptedEvent[] {
  const events = answerEvents(api);
  const firstAnswer = events.findIndex(({ role }) => role === "answer");
  const big: ScriptedEvent = { role: "answer", bytes: contentEvent(api, "é".repeat(length / 2)) };
  return [...events.slice(0, firstAnswer + before), big, ...events.slice(firstAnswer + before)];
}

function bytesOf(events: readonly ScriptedEvent[]): Buffer {
  return Buffer.concat(events.map(({ bytes }) => bytes));
}

const base = { stream: true, body: answerBody("chat"), mayEndWell: true, mayFail: false, as: "either" } as const;

test("an event of 8 MiB in pieces of 64 bytes passes byte for byte, in linear time", async () => {
  const api = "chat";
  const timed = async (length: number) => {
    const events = withBig(api, 1, length);
    const from = performance.now();
    const seen = await askWith(piecewise(bytesOf(events), 64), api);
    const took = performance.now() - from;
    judge(seen, { ...base, api, events, delivered: events.length });
    expect(seen.body.equals(bytesOf(events))).toBe(true);
    return took;
  };
  await timed(MIB);
  const one = await timed(MIB);
  const eight = await timed(8 * MIB);
  // Eight times the bytes: copying the held part with each piece would make it sixty-four times the time.
  expect(eight).toBeLessThan(Math.max(one, 20) * 24);
}, 30_000);

test.each<{ api: Api; before: number; as: "status" | "frame" }>([
  { api: "chat", before: 0, as: "status" },
  { api: "chat", before: 2, as: "frame" },
  { api: "completions", before: 0, as: "status" },
  { api: "completions", before: 1, as: "frame" },
  { api: "messages", before: 0, as: "status" },
  { api: "messages", before: 2, as: "frame" },
])("an event above eventBytes fails the stream ($api, after $before answers: $as)", async ({ api, before, as }) => {
  const events = withBig(api, before, 2 * MIB);
  const delivered = events.findIndex(({ role }) => role === "answer") + before;
  const seen = await askWith(piecewise(bytesOf(events), 4_096), api, MIB);
  judge(seen, {
    ...base,
    api,
    events,
    delivered,
    atLeast: as === "frame" ? delivered : 0,
    mayEndWell: false,
    mayFail: true,
    as,
    statuses: [502],
    codes: ["event_too_large"],
  });
});

test("an event just below eventBytes passes", async () => {
  const events = withBig("chat", 1, MIB - 2_000);
  const seen = await askWith(piecewise(bytesOf(events), 1_000), "chat", MIB);
  judge(seen, { ...base, api: "chat", events, delivered: events.length });
});
