import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { ScriptedEngine, type Wire } from "./engine.ts";
import { type Mode, prefillAnswer } from "./prefill-answers.ts";
import { RawClient } from "./raw-client.ts";
import { atRest, eventually, serveRouter, stopAll, workersOf } from "./served-router.ts";
import { Stalls } from "./stalls.ts";
import { answerBody, answerEvents, contentEvent, paths, requestBody } from "./streams.ts";

const api = "chat";
const lead = answerEvents(api)[0]!.bytes;
const word = contentEvent(api, "word");

/** Where both engines stand when the client leaves. */
interface Stage {
  name: string;
  mode: Mode;
  stream: boolean;
  prefill(wire: Wire): Promise<void>;
  decode(wire: Wire): Promise<void>;
  /** Requests that each engine has by then. */
  at: { prefill: number; decode: number };
  /** So many bytes the client has by then. */
  received: number;
  config?: object;
}

const silent = (wire: Wire) => wire.silence();
const headOnly = async (wire: Wire) => {
  await wire.head(200, "text/event-stream");
  await wire.silence();
};
const leadOnly = async (wire: Wire) => {
  await wire.head(200, "text/event-stream");
  await wire.chunk(lead);
  await wire.silence();
};
const words = async (wire: Wire) => {
  await wire.head(200, "text/event-stream");
  await wire.chunk(lead);
  await wire.chunk(word);
  await wire.silence();
};
const endless = async (wire: Wire) => {
  await wire.head(200, "text/event-stream");
  for (;;) {
    await wire.chunk(word);
    await wire.pause(1);
  }
};
const finished = async (wire: Wire) => {
  await wire.head(200, "text/event-stream");
  for (const { bytes } of answerEvents(api)) await wire.chunk(bytes);
  await wire.end();
};
const halfBody = async (wire: Wire) => {
  await wire.head(200, "application/json", "content-length: 4000\r\n");
  await wire.raw(answerBody(api).slice(0, 40));
  await wire.silence();
};
const given = (mode: Mode) => (wire: Wire) => wire.json(200, prefillAnswer(mode, api));

const both = { prefill: 1, decode: 1 };
const stages: Stage[] = [
  {
    name: "no headers from either leg",
    mode: "sglang",
    stream: true,
    prefill: silent,
    decode: silent,
    at: both,
    received: 0,
  },
  {
    name: "no headers, buffered",
    mode: "sglang",
    stream: false,
    prefill: silent,
    decode: silent,
    at: both,
    received: 0,
  },
  { name: "decode's headers", mode: "sglang", stream: true, prefill: silent, decode: headOnly, at: both, received: 0 },
  {
    name: "decode's first chunk, uncommitted",
    mode: "sglang",
    stream: true,
    prefill: silent,
    decode: leadOnly,
    at: both,
    received: 0,
  },
  {
    name: "an answer, then silence",
    mode: "sglang",
    stream: true,
    prefill: silent,
    decode: words,
    at: both,
    received: 1,
  },
  {
    name: "a running stream, prefill done",
    mode: "sglang",
    stream: true,
    prefill: given("sglang"),
    decode: endless,
    at: both,
    received: 4_000,
  },
  {
    name: "half a buffered body",
    mode: "sglang",
    stream: false,
    prefill: silent,
    decode: halfBody,
    at: both,
    received: 0,
  },
  {
    name: "a held finish",
    mode: "sglang",
    stream: true,
    prefill: silent,
    decode: finished,
    at: both,
    received: 1,
    config: { timeouts: { settleMs: 30_000 } },
  },
  {
    name: "keep-alive comments",
    mode: "sglang",
    stream: true,
    prefill: silent,
    decode: silent,
    at: both,
    received: 1,
    config: { timeouts: { keepAliveMs: 10 } },
  },
  {
    name: "prefill alone is asked",
    mode: "vllm",
    stream: true,
    prefill: silent,
    decode: silent,
    at: { prefill: 1, decode: 0 },
    received: 0,
  },
  {
    name: "prefill alone is asked",
    mode: "trtllm",
    stream: false,
    prefill: silent,
    decode: silent,
    at: { prefill: 1, decode: 0 },
    received: 0,
  },
  {
    name: "a running stream",
    mode: "vllm",
    stream: true,
    prefill: given("vllm"),
    decode: endless,
    at: both,
    received: 4_000,
  },
  {
    name: "an answer, then silence",
    mode: "trtllm",
    stream: true,
    prefill: given("trtllm"),
    decode: words,
    at: both,
    received: 1,
  },
  {
    name: "no headers",
    mode: "aggregated",
    stream: true,
    prefill: silent,
    decode: silent,
    at: { prefill: 0, decode: 1 },
    received: 0,
  },
  {
    name: "a running stream",
    mode: "aggregated",
    stream: true,
    prefill: silent,
    decode: endless,
    at: { prefill: 0, decode: 1 },
    received: 4_000,
  },
];

/** Contract section 6 and the measured aim for Bun. A machine that stands still gets what it stood still on top. */
const CLOSED_MS = 100;

describe("a client that leaves closes every upstream socket within 100 ms", () => {
  for (const stage of stages) {
    for (const how of ["close", "reset"] as const) {
      test(`${stage.mode}, ${stage.name} (${how})`, () => hangUp(stage, how));
    }
  }
});

async function hangUp(stage: Stage, how: "close" | "reset"): Promise<void> {
  const prefill = await ScriptedEngine.start(stage.prefill);
  const decode = await ScriptedEngine.start(stage.decode);
  const server = serveRouter({ ...stage, prefill: [prefill.url], decode: [decode.url] });
  const stalls = new Stalls();
  try {
    for (let round = 1; round <= 3; round++) {
      const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, stage.stream) });
      await eventually(5_000, () =>
        prefill.exchanges.length >= stage.at.prefill * round && decode.exchanges.length >= stage.at.decode * round
          ? ""
          : "the engines were not asked",
      );
      await client.until(stage.received);
      await new Promise((resolve) => setTimeout(resolve, 15));
      const left = performance.now();
      client.hangUp(how);
      await atRest(server, [prefill, decode], 3_000);
      const took = performance.now() - left;
      expect(took).toBeLessThan(CLOSED_MS + stalls.lostSince(left));
    }
    for (const { breaker } of workersOf(server)) expect(breaker.failures).toBe(0);
  } finally {
    stalls.stop();
    await stopAll(server, [prefill, decode]);
  }
}

test("a client that leaves in the middle of its own body reaches no engine and holds no place", async () => {
  const decode = await ScriptedEngine.start(silent);
  const server = serveRouter({ mode: "aggregated", decode: [decode.url], config: { limits: { concurrency: 1 } } });
  try {
    for (const framing of ["content-length: 4000", "transfer-encoding: chunked"]) {
      const socket = connect({ port: server.port, host: "127.0.0.1" });
      const part = framing.startsWith("content") ? '{"model":"m"' : 'c\r\n{"model":"m"\r\n';
      socket.write(
        `POST ${paths[api]} HTTP/1.1\r\nhost: router\r\ncontent-type: application/json\r\n${framing}\r\n\r\n${part}`,
      );
      await new Promise((resolve) => setTimeout(resolve, 30));
      socket.destroy();
    }
    await new Promise((resolve) => setTimeout(resolve, 30));
    // The one place is free again.
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    await eventually(2_000, () => (decode.exchanges.length === 1 ? "" : "the place is still taken"));
    client.hangUp();
    await atRest(server, [decode], 1_000);
    expect(decode.exchanges).toHaveLength(1);
  } finally {
    await stopAll(server, [decode]);
  }
});

test("who leaves during the pause before a retry starts no other attempt", async () => {
  const decode = await ScriptedEngine.start((wire) => wire.fin());
  const dead = await ScriptedEngine.start(silent);
  await dead.close();
  const server = serveRouter({
    mode: "aggregated",
    decode: [dead.url, decode.url],
    config: { retries: { maxRetries: 2, backoffMs: 400, maxBackoffMs: 400 } },
  });
  try {
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    // Counted when the pause begins.
    const retried = /^prefill_router_retries_total\{.*\} [1-9]/m;
    await eventually(2_000, () => (retried.test(server.router.telemetry.metrics.render()) ? "" : "no retry"));
    client.hangUp();
    await eventually(CLOSED_MS * 2, () => (server.router.active() === 0 ? "" : "still in progress"));
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(decode.exchanges).toHaveLength(0);
  } finally {
    await stopAll(server, [decode]);
  }
});

test("a client that leaves after its answer does not cut the prefill that is still transferring", async () => {
  const done = Promise.withResolvers<void>();
  const prefill = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "application/json");
    await wire.until(done.promise);
    await wire.chunk(prefillAnswer("sglang", api));
    await wire.end();
  });
  const decode = await ScriptedEngine.start(finished);
  const server = serveRouter({
    mode: "sglang",
    prefill: [prefill.url],
    decode: [decode.url],
    config: { timeouts: { settleMs: 20, tailMs: 5_000 } },
  });
  try {
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    expect((await client.answer()).whole).toBe(true);
    client.hangUp("reset");
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(prefill.open).toBe(1);
    done.resolve();
    await atRest(server, [prefill, decode], 2_000);
    expect(prefill.exchanges[0]).toMatchObject({ over: true, gone: false });
  } finally {
    await stopAll(server, [prefill, decode]);
  }
});

test("a router that shuts down still closes the sockets of a client that leaves", async () => {
  const prefill = await ScriptedEngine.start(given("sglang"));
  const decode = await ScriptedEngine.start(endless);
  const server = serveRouter({ mode: "sglang", prefill: [prefill.url], decode: [decode.url] });
  try {
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    await client.until(2_000);
    const over = server.router.shutdown(20_000);
    const from = performance.now();
    client.hangUp();
    await atRest(server, [prefill, decode], 1_000);
    await over;
    expect(performance.now() - from).toBeLessThan(2_000);
  } finally {
    await stopAll(server, [prefill, decode]);
  }
});

test("deferred: the sockets outlive the client until decode's first event, and pings are none", async () => {
  const speak = Promise.withResolvers<void>();
  const prefill = await ScriptedEngine.start(silent);
  const decode = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "text/event-stream");
    for (let ping = 0; ping < 4; ping++) {
      await wire.pause(30);
      await wire.chunk(": ping\n\n");
    }
    await wire.until(speak.promise);
    await wire.chunk(lead);
    await wire.silence();
  });
  const server = serveRouter({
    mode: "sglang",
    prefill: [prefill.url],
    decode: [decode.url],
    pool: { cancel: "deferred" },
    config: { timeouts: { tailMs: 4_000 } },
  });
  try {
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    await eventually(2_000, () => (decode.exchanges.length === 1 ? "" : "decode was not asked"));
    client.hangUp();
    await eventually(1_000, () => (server.router.active() === 0 ? "" : "the client is still counted"));
    await new Promise((resolve) => setTimeout(resolve, 250));
    expect([prefill.open, decode.open]).toEqual([1, 1]);
    expect(workersOf(server).map(({ load }) => load.requests)).toEqual([1, 1]);
    speak.resolve();
    await atRest(server, [prefill, decode], 1_000);
  } finally {
    await stopAll(server, [prefill, decode]);
  }
});

test("a hand-off whose client has left is released once: one token, no stream, the same prompt, counted", async () => {
  const answer = Promise.withResolvers<void>();
  const prefill = await ScriptedEngine.start(async (wire) => {
    await wire.until(answer.promise);
    await wire.json(200, prefillAnswer("vllm", api));
  });
  const decode = await ScriptedEngine.start((wire) => wire.json(200, answerBody(api)));
  const server = serveRouter({
    mode: "vllm",
    prefill: [prefill.url],
    decode: [decode.url],
    pool: { cancel: "deferred" },
  });
  try {
    const client = new RawClient({
      port: server.port,
      path: paths[api],
      body: requestBody(api, true, "ünïque prompt"),
    });
    await eventually(2_000, () => (prefill.exchanges.length === 1 ? "" : "prefill was not asked"));
    client.hangUp();
    await new Promise((resolve) => setTimeout(resolve, 30));
    answer.resolve();
    await eventually(2_000, () => (decode.exchanges.length === 1 ? "" : "the hand-off was not released"));
    await atRest(server, [prefill, decode], 1_000);
    const released = JSON.parse(decode.exchanges[0]!.request.body);
    expect(released).toMatchObject({
      stream: false,
      max_tokens: 1,
      messages: [{ role: "user", content: "ünïque prompt" }],
      kv_transfer_params: { do_remote_prefill: true, remote_request_id: "rr-1" },
    });
    expect(server.router.telemetry.metrics.render()).toMatch(/prefill_router_handoffs?_released\S* 1\b/);
    for (const { breaker } of workersOf(server)) expect(breaker.failures).toBe(0);
  } finally {
    await stopAll(server, [prefill, decode]);
  }
});
