import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { RouterProcess } from "../cli/router-process.ts";

const MIB = 1_048_576;
const STREAM = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const JSON_CHUNKED = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
const ANSWER = 'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n';

function chunk(text: string | Buffer): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
}

const zeros = Buffer.alloc(64 * MIB, 0x20);
/** 64 KiB on the wire, 64 MiB unpacked, twenty times over: more than a gigabyte of blanks. */
const bomb = Buffer.concat(Array.from({ length: 20 }, () => gzipSync(zeros)));

/** What an engine that is broken, or taken over, can do to whoever asks it something. `again` is sent for ever, as fast as it is taken. */
interface Hostile {
  first: string | Buffer;
  again?: string | Buffer;
  /** An answer that is no stream, whatever was asked for: it is gathered whole. */
  whole?: true;
}

const HOSTILE: Readonly<Record<string, Hostile>> = {
  "endless headers": { first: "HTTP/1.1 200 OK\r\n", again: `x-a: ${"a".repeat(1_000)}\r\n`.repeat(60) },
  "a header without end": { first: "HTTP/1.1 200 OK\r\nx-a: ", again: "a".repeat(65_536) },
  "a status line without end": { first: "HTTP/1.1 200 ", again: "a".repeat(65_536) },
  "no HTTP at all": { first: "", again: Buffer.alloc(65_536, 0xff) },
  "a flood of 100": { first: "", again: "HTTP/1.1 100 Continue\r\n\r\n".repeat(2_000) },
  "a flood of 103": { first: "", again: `HTTP/1.1 103 Early Hints\r\nlink: <${"a".repeat(500)}>\r\n\r\n`.repeat(100) },
  "an endless event": { first: STREAM + chunk(ANSWER), again: chunk(`data: ${"a".repeat(65_536)}`) },
  "an endless first event": { first: STREAM, again: chunk("a".repeat(65_536)) },
  "an endless line of 100 MB": {
    first: Buffer.concat([
      Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${100 * MIB}\r\n\r\ndata: `),
      Buffer.alloc(100 * MIB - 6, 0x61),
    ]),
  },
  "endless comments": { first: STREAM, again: chunk(": ping\n\n".repeat(4_000)) },
  "endless empty events": { first: STREAM, again: chunk("data: {}\n\n".repeat(4_000)) },
  "endless blank lines": { first: STREAM, again: chunk("\n".repeat(65_536)) },
  "endless JSON": { whole: true, first: JSON_CHUNKED, again: chunk(" ".repeat(65_536)) },
  "a length of terabytes": {
    whole: true,
    first: "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9007199254740991\r\n\r\n",
    again: " ".repeat(65_536),
  },
  "a gzip bomb as JSON": {
    whole: true,
    first: Buffer.concat([
      Buffer.from(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`,
      ),
      bomb,
    ]),
  },
  "a gzip bomb as events": {
    first: Buffer.concat([
      Buffer.from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
      ),
      chunk(bomb),
    ]),
  },
  "a chunk size beyond all": { first: `${STREAM}ffffffffffffffffff\r\n`, again: "a".repeat(65_536) },
  "a negative chunk size": { first: `${STREAM}-5\r\n`, again: "a".repeat(65_536) },
  "a chunk size that is a word": { first: `${STREAM}hello\r\n`, again: "a".repeat(65_536) },
  "a chunk extension without end": { first: `${STREAM}5;`, again: "a".repeat(65_536) },
  "two lengths": {
    first: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\ncontent-length: 900\r\n\r\n{}`,
    again: "a".repeat(65_536),
  },
  "an answer and then more": {
    first: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
    again: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".repeat(1_000),
  },
};

function hostileServer(hostile: Hostile): Promise<{ url: string; server: Server; sockets: Set<Socket> }> {
  const sockets = new Set<Socket>();
  const server = createServer(function accept(socket) {
    sockets.add(socket);
    let started = false;
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", function answer() {
      // From then on it only writes; what else it is asked means nothing to it.
      if (started) return;
      started = true;
      if (socket.write(hostile.first)) flood();
      socket.on("drain", flood);
    });
    function flood(): void {
      if (hostile.again === undefined) return;
      // A few at a time, so that one flood does not take this process's every turn.
      for (let i = 0; i < 8; i++) if (socket.destroyed || !socket.write(hostile.again)) return;
      setImmediate(flood);
    }
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      resolve({ url: `http://127.0.0.1:${port}`, server, sockets });
    });
  });
}

/** Hostile engines, and a router of its own in front of them: what one of them costs is not hidden by what another has cost before. */
async function stage(hostile: Hostile) {
  const engines = await Promise.all([1, 2, 3].map(() => hostileServer(hostile)));
  const [alone, prefill, decode] = engines.map(({ url }) => url);
  const limit = 300;
  const router = await RouterProcess.start({
    models: [
      { id: "alone", pools: [{ name: "a", engine: "openai", workers: [alone] }] },
      { id: "split", pools: [{ name: "s", engine: "sglang", prefill: [prefill], decode: [decode] }] },
    ],
    timeouts: { connectMs: limit, prefillMs: limit, firstTokenMs: limit, idleMs: limit, totalMs: limit, tailMs: limit },
    retries: { maxRetries: 0 },
    breaker: { enabled: false },
    health: { intervalMs: 0 },
    log: { level: "silent" },
  });
  return {
    router,
    async [Symbol.asyncDispose]() {
      await router[Symbol.asyncDispose]();
      for (const { server, sockets } of engines) {
        server.close();
        for (const socket of sockets) socket.destroy();
      }
    },
  };
}

async function rss({ pid }: RouterProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1_024;
}

/** The answer's status and how much of a body came, or that none came in time. */
async function ask(
  port: number,
  model: string,
  stream: boolean,
): Promise<{ status: number; bytes: number; over: boolean }> {
  const controller = new AbortController();
  // Some of these streams are answers without end: endless, but moving. A client leaves those.
  const timer = setTimeout(() => controller.abort(), 2_000);
  let bytes = 0;
  let status = 0;
  try {
    const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "x" }] }),
      signal: controller.signal,
    });
    status = response.status;
    for await (const piece of response.body!) bytes += piece.length;
    return { status, bytes, over: true };
  } catch {
    return { status, bytes, over: false };
  } finally {
    clearTimeout(timer);
  }
}

test.each(Object.keys(HOSTILE))(
  "%s: every client gets an answer, the router stays alive and small",
  async (name) => {
    await using house = await stage(HOSTILE[name]!);
    const { router } = house;
    const before = await rss(router);
    // Streams hold back one event of 16 MiB at most, with room to grow, and what the collector has not got round to. A whole answer may be
    // large (logprobs of a long prompt) but ends at 256 MiB. In nothing may an engine make its router count in gigabytes.
    for (const stream of [true, false]) {
      const bound = stream && HOSTILE[name]!.whole !== true ? 400 : 1_000;
      let most = 0;
      const watch = setInterval(async () => {
        most = Math.max(most, await rss(router));
      }, 20);
      const answers = await Promise.all(["alone", "split"].map((kind) => ask(router.port, kind, stream)));
      clearInterval(watch);
      most = Math.max(most, await rss(router));
      for (const { status, over } of answers) {
        expect(status).not.toBe(0);
        if (status !== 200) expect({ status, over }).toEqual({ status: Math.max(status, 400), over: true });
      }
      expect(Math.round((most - before) / MIB)).toBeLessThan(bound);
    }
    expect((await fetch(`http://127.0.0.1:${router.port}/health`)).status).toBe(200);
    expect(router.running).toBe(true);
  },
  20_000,
);
