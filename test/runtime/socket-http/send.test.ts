import { afterAll, describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { Pieces } from "../../../src/json/pieces.ts";
import type { AnswerHead, Exchange } from "../../../src/legs/exchange.ts";
import { ConnectTimeout, faultBeforeHeaders, type SendRequest } from "../../../src/legs/transport.ts";
import { bunTransport } from "../../../src/runtime/bun.ts";
import { DeafWorker } from "../../runtimes/deaf.ts";
import { textOf } from "./pieces.ts";
import { type EngineSide, TcpEngine } from "./tcp-engine.ts";

const sendOverSocket = bunTransport.send!;

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

interface Sent {
  exchange: Exchange;
  head: Promise<AnswerHead>;
}

const deaf: DeafWorker[] = [];

/** Kept until the end: connects to it that were given up would reach whoever gets its port. */
async function deafWorker(): Promise<string> {
  const worker = await new DeafWorker().start();
  deaf.push(worker);
  return worker.url;
}

afterAll(() => {
  for (const worker of deaf) worker.stop();
});

function send(
  url: string,
  { body = "{}", ...more }: Partial<Omit<SendRequest, "body">> & { body?: string } = {},
): Sent {
  const { promise, resolve, reject } = Promise.withResolvers<AnswerHead>();
  promise.catch(() => {});
  const request = { headers: {}, body: new Pieces([body]), fresh: false, connectMs: 1_000, ...more };
  const exchange = sendOverSocket(url, request, { head: resolve, failed: reject });
  if (exchange === undefined) throw new Error("not over a socket");
  return { exchange, head: promise };
}

function chunk(exchange: Exchange): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => exchange.read({ chunk: resolve, cut: reject }));
}

/** The answer, and the connection is at rest. */
async function whole({ exchange, head }: Sent): Promise<string> {
  await head;
  const text = await exchange.text();
  await new Promise(setImmediate);
  return text;
}

async function pieces(exchange: Exchange): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for (let part = await chunk(exchange); part !== undefined; part = await chunk(exchange)) parts.push(part);
  return Buffer.concat(parts);
}

async function error(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; i < 400 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(holds()).toBe(true);
}

function engine(answer: (side: EngineSide, request: string) => void): Promise<TcpEngine> {
  return new TcpEngine(answer).listen();
}

describe("connections", () => {
  test("are kept alive and used again, one exchange at a time", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    for (let i = 0; i < 3; i++) expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.map(({ requests }) => requests.length)).toEqual([3]);
    expect(await Promise.all([whole(send(peer.url)), whole(send(peer.url))])).toEqual(["ok", "ok"]);
    expect(peer.connections.map(({ requests }) => requests.length)).toEqual([4, 1]);
  });

  test.each([
    ["the answer says so", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"],
    ["the answer is HTTP/1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok"],
    ["more than the answer has come", `${OK}HTTP`],
  ])("are closed when %s", async (_, answer) => {
    using peer = await engine(({ socket }) => socket.write(answer));
    expect(await whole(send(peer.url))).toBe("ok");
    expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.length).toBe(2);
    await until(() => peer.connections.every(({ closed }) => closed));
  });

  test("a request that wants a fresh one gets it, says so, and leaves none behind", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    expect(await whole(send(peer.url))).toBe("ok");
    expect(await whole(send(peer.url, { fresh: true }))).toBe("ok");
    expect(peer.connections[1]!.requests[0]).toContain("\r\nconnection: close\r\n");
    await until(() => peer.connections[1]!.closed);
    expect(peer.connections[0]!.closed).toBe(false);
  });

  test("one that the engine closes, or speaks on unasked, is not used again", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    expect(await whole(send(peer.url))).toBe("ok");
    peer.connections[0]!.socket.end();
    await until(() => peer.connections[0]!.closed);
    expect(await whole(send(peer.url))).toBe("ok");
    peer.connections[1]!.socket.write(OK);
    await until(() => peer.connections[1]!.closed);
    expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.length).toBe(3);
  });

  test("that breaks under a request fails it, and the request is not sent again", async () => {
    using peer = await engine(({ socket, requests }) => {
      if (requests.length === 1) socket.write(OK);
      else socket.resetAndDestroy();
    });
    expect(await whole(send(peer.url))).toBe("ok");
    expect(faultBeforeHeaders(await error(send(peer.url).head))).toBe("reset");
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(peer.connections.map(({ requests }) => requests.length)).toEqual([2]);
  });

  test("whose end comes with their answer, unannounced, are not used again", async () => {
    using peer = await engine(({ socket }) => socket.end(OK));
    for (let i = 0; i < 40; i++) {
      const sent = send(peer.url);
      await sent.head;
      expect(await sent.exchange.text()).toBe("ok");
    }
  });

  test.skipIf(process.platform !== "linux")(
    "are asked for by the kernel when they are silent (keep-alive)",
    async () => {
      using peer = await engine(({ socket }) => socket.write(CHUNKED));
      const { exchange, head } = send(peer.url);
      await head;
      const port = Number(new URL(peer.url).port).toString(16).toUpperCase().padStart(4, "0");
      const [line] = (await Bun.file("/proc/net/tcp").text()).split("\n").filter((row) => row.includes(`:${port} 01 `));
      // The timer that runs: 2 is keep-alive.
      expect(line).toContain(" 02:");
      exchange.close();
    },
  );

  test("to a host that is gone are not begun again and again", async () => {
    const url = `${await deafWorker()}/v1`;
    const given: Sent[] = [];
    for (let i = 0; i < 8; i++) given.push(send(url, { connectMs: 20 }));
    await Promise.all(given.map(({ head }) => error(head)));
    const request = { headers: {}, body: new Pieces([]), fresh: false, connectMs: 20 };
    expect(sendOverSocket(url, request, { head: () => {}, failed: () => {} })).toBeUndefined();
  });

  test("that fail at once do so after the sending", async () => {
    const order: string[] = [];
    const failed = new Promise<void>((resolve) => {
      sendOverSocket(
        "http://255.255.255.255/v1",
        { headers: {}, body: new Pieces([]), fresh: false, connectMs: 1_000 },
        {
          head: () => {},
          failed: () => {
            order.push("failed");
            resolve();
          },
        },
      );
      order.push("sent");
    });
    await failed;
    expect(order).toEqual(["sent", "failed"]);
  });

  test("that cannot be opened tell why", async () => {
    const refused = await error(send("http://127.0.0.1:1/v1").head);
    const nowhere = await error(send("http://no-such-host.invalid/v1").head);
    expect([faultBeforeHeaders(refused), faultBeforeHeaders(nowhere)]).toEqual(["refused", "refused"]);
  });

  test("that do not open within connectMs are given up", async () => {
    const url = await deafWorker();
    const from = performance.now();
    const failed = await error(send(`${url}/v1`, { connectMs: 100 }).head);
    expect(failed).toBeInstanceOf(ConnectTimeout);
    expect(faultBeforeHeaders(failed)).toBe("connect");
    expect(performance.now() - from).toBeGreaterThan(90);
  });
});

describe("requests", () => {
  test("have the length they say, even with half a surrogate pair in them", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    for (const body of ["\ud800", "ü\udc00", `${"x".repeat(100_000)}\ud83d\ude00`]) {
      expect(await whole(send(peer.url, { body, headers: { "x-value": "gr\xfc\xdfe" } }))).toBe("ok");
      const request = peer.connections[0]!.requests.at(-1)!;
      expect(request).toContain("\r\nx-value: gr\xfc\xdfe\r\n");
      expect(Buffer.from(request.slice(request.indexOf("\r\n\r\n") + 4), "latin1")).toEqual(Buffer.from(body));
      expect(await whole(send(peer.url, { body }))).toBe("ok");
    }
    expect(peer.connections.map(({ requests }) => requests.length)).toEqual([6]);
  });

  test("of many megabytes reach an engine that reads slowly", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    const body = JSON.stringify({ prompt: "ü".repeat(4_000_000) });
    const sent = send(peer.url, { body });
    await until(() => peer.connections.length === 1);
    for (let i = 0; i < 5; i++) {
      peer.connections[0]!.socket.pause();
      await new Promise((resolve) => setTimeout(resolve, 10));
      peer.connections[0]!.socket.resume();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    expect(await whole(sent)).toBe("ok");
    const [request] = peer.connections[0]!.requests;
    expect(Buffer.from(request!.slice(request!.indexOf("\r\n\r\n") + 4), "latin1").toString() === body).toBe(true);
  });

  test("of which a kept connection has taken a part stay what they are while others are sent", async () => {
    using slow = await engine(({ socket }) => socket.write(OK));
    using other = await engine(({ socket }) => socket.write(OK));
    for (const peer of [slow, other]) expect(await whole(send(peer.url))).toBe("ok");
    slow.connections[0]!.socket.pause();
    const long = "\u8a9e".repeat(260_000);
    const sent = Array.from({ length: 8 }, () => send(slow.url, { body: long }));
    await whole(send(other.url, { body: "z".repeat(200_000) }));
    slow.connections[0]!.socket.resume();
    expect(await Promise.all(sent.map(whole))).toEqual(sent.map(() => "ok"));
    const requests = slow.connections.flatMap(({ requests }) => requests).filter((request) => request.length > 1_000);
    expect(requests.length).toBe(8);
    const bodies = requests.map((request) => Buffer.from(request.slice(request.indexOf("\r\n\r\n") + 4), "latin1"));
    for (const body of bodies) expect(body.toString() === long).toBe(true);
  });

  test("that are answered before they are sent leave no connection behind", async () => {
    const answer = "HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig";
    using peer = await engine(() => {});
    const sent = send(peer.url, { body: "x".repeat(50_000_000) });
    await until(() => peer.connections.length === 1);
    peer.connections[0]!.socket.pause();
    peer.connections[0]!.socket.write(answer);
    expect((await sent.head).status).toBe(413);
    expect(await sent.exchange.text()).toBe("big");
    peer.connections[0]!.socket.resume();
    await until(() => peer.connections[0]!.closed);
  });
});

describe("answers", () => {
  test("tell status and headers before their body, and each part when it comes", async () => {
    using peer = await engine(({ socket }) => socket.write(`${CHUNKED.replace("200", "207")}3\r\nabc\r\n`));
    const { exchange, head } = send(peer.url);
    const { status, headers } = await head;
    expect([status, headers.get("transfer-encoding"), headers.has("content-length")]).toEqual([207, "chunked", false]);
    expect(textOf(await chunk(exchange))).toBe("abc");
    const next = chunk(exchange);
    peer.connections[0]!.socket.write("2\r\nde\r\n1\r\nf\r\n");
    expect(textOf(await next)).toBe("def");
    peer.connections[0]!.socket.write("0\r\n\r\n");
    expect(await chunk(exchange)).toBeUndefined();
    expect(await chunk(exchange)).toBeUndefined();
  });

  test("that end with their connection are whole", async () => {
    using peer = await engine(({ socket }) => socket.end("HTTP/1.1 200 OK\r\n\r\nto the end"));
    expect(await whole(send(peer.url))).toBe("to the end");
  });

  test.each([
    ["closed", (side: EngineSide) => side.socket.end()],
    ["reset", (side: EngineSide) => side.socket.resetAndDestroy()],
    ["not HTTP", (side: EngineSide) => side.socket.write("what?\r\n\r\n")],
    ["an interim one, then closed", (side: EngineSide) => side.socket.end("HTTP/1.1 100 Continue\r\n\r\n")],
    ["half a head", (side: EngineSide) => side.socket.end("HTTP/1.1 200 OK\r\nx:")],
  ])("before the head: %s is a failure in its place", async (_, answer) => {
    using peer = await engine(answer);
    expect(faultBeforeHeaders(await error(send(peer.url).head))).toBe("reset");
  });

  test.each([
    ["closed", (side: EngineSide) => side.socket.end(`${CHUNKED}2\r\nab\r\n`)],
    ["short of its length", (side: EngineSide) => side.socket.end(`${OK.replace(": 2", ": 9")}`)],
    ["a wrong chunk", (side: EngineSide) => side.socket.write(`${CHUNKED}2\r\nab\r\nzz\r\n`)],
    [
      "reset",
      (side: EngineSide) => {
        side.socket.write(`${CHUNKED}2\r\nab\r\n`);
        setTimeout(() => side.socket.resetAndDestroy(), 20);
      },
    ],
  ])("in the body: %s gives what came, then the failure, again and again", async (_, answer) => {
    using peer = await engine(answer);
    const { exchange, head } = send(peer.url);
    await head;
    expect((await chunk(exchange))!.length).toBe(2);
    expect(await error(chunk(exchange))).toBeInstanceOf(Error);
    expect(await error(chunk(exchange))).toBeInstanceOf(Error);
    exchange.close();
  });

  test("cut in the middle are no text", async () => {
    using peer = await engine(({ socket }) => socket.end(OK.replace(": 2", ": 9")));
    expect(await error(whole(send(peer.url)))).toBeInstanceOf(Error);
  });

  test("that end with a connection which a half-sent request has broken are no answers", async () => {
    using peer = await new TcpEngine(
      () => {},
      ({ socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\n\r\n${"a".repeat(1_000)}`);
        socket.resetAndDestroy();
      },
    ).listen();
    const body = "x".repeat(20_000_000);
    for (let i = 0; i < 20; i++)
      expect(await error(whole(send(peer.url, { body, fresh: true })))).toBeInstanceOf(Error);
  });

  test("whose reader throws are given up: the engine is not left talking to nobody", async () => {
    using peer = await engine(({ socket }) => {
      socket.write(CHUNKED);
      const talking = setInterval(() => socket.write("2\r\nab\r\n"), 5);
      socket.on("close", () => clearInterval(talking));
    });
    const { exchange, head } = send(peer.url);
    await head;
    exchange.read({
      chunk() {
        throw new Error("a bug");
      },
      cut() {},
    });
    await until(() => peer.connections[0]!.closed);
    // Of our own: no engine is to blame.
    expect(await error(chunk(exchange))).toMatchObject({ code: "internal", stage: "router" });
  });

  test("as text: UTF-8 cut anywhere, without its byte order mark", async () => {
    const text = "Grüße, 世界! 🎉";
    const bytes = Buffer.from(`\ufeff${text}`);
    using peer = await engine(async ({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`);
      for (const byte of bytes) {
        socket.write(Buffer.of(byte));
        await new Promise(setImmediate);
      }
    });
    expect(await whole(send(peer.url))).toBe(text);
  });

  test("wait in the engine when nobody reads, and the connection is as good as before", async () => {
    const size = 40_000_000;
    using peer = await engine(({ socket, requests }) => {
      if (requests.length > 1) socket.write(OK);
      else
        socket.write(
          Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`), Buffer.alloc(size, 97)]),
        );
    });
    const { exchange, head } = send(peer.url);
    await head;
    await new Promise((resolve) => setTimeout(resolve, 100));
    // The kernel's buffers on both sides hold some megabytes of it.
    expect(peer.connections[0]!.socket.writableLength).toBeGreaterThan(size / 2);
    expect((await pieces(exchange)).length).toBe(size);
    await new Promise(setImmediate);
    expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.length).toBe(1);
  });

  test("that end with more than may wait leave a connection that is read from", async () => {
    const body = "x".repeat(200_000);
    using peer = await engine(({ socket, requests }) => {
      socket.write(requests.length > 1 ? OK : `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    });
    const first = send(peer.url);
    await first.head;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await pieces(first.exchange)).length).toBe(body.length);
    await new Promise(setImmediate);
    expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.length).toBe(1);
  });

  test.each(["text", "read"])("that came compressed although nobody asked are unpacked (%s)", async (how) => {
    const packed = gzipSync("[1,2,3]".repeat(10_000));
    using peer = await engine(({ socket }) => {
      const head = `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`;
      socket.write(Buffer.concat([Buffer.from(head), packed]));
    });
    const { exchange, head } = send(peer.url);
    await head;
    const text = how === "text" ? await exchange.text() : String(await pieces(exchange));
    expect(text).toBe("[1,2,3]".repeat(10_000));
  });
});

describe("closing", () => {
  test("before the connection is open: the request is not sent", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    const { exchange, head } = send(peer.url);
    exchange.close();
    exchange.close();
    expect(await error(head)).toBeInstanceOf(Error);
    await until(() => peer.connections.length === 1 && peer.connections[0]!.closed);
    expect(peer.connections[0]!.requests).toEqual([]);
  });

  test("before the head, and in the body: the engine's side is closed, what is pending fails", async () => {
    using peer = await engine(({ socket, requests: [request] }) => {
      if (request!.endsWith("body")) socket.write(`${CHUNKED}2\r\nab\r\n`);
    });
    const silent = send(peer.url);
    const streaming = send(peer.url, { body: "body" });
    await streaming.head;
    await chunk(streaming.exchange);
    const pending = chunk(streaming.exchange);
    await until(() => peer.connections.every(({ requests }) => requests.length === 1));
    silent.exchange.close();
    streaming.exchange.close();
    expect(await error(silent.head)).toBeInstanceOf(Error);
    expect(await error(pending)).toBeInstanceOf(Error);
    expect(await error(chunk(streaming.exchange))).toBeInstanceOf(Error);
    await until(() => peer.connections.every(({ closed }) => closed));
  });

  test("in the tick of the head or of a part, by whoever hears of it", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    const heads: number[] = [];
    let exchange: Exchange | undefined;
    exchange = sendOverSocket(
      peer.url,
      { headers: {}, body: new Pieces([]), fresh: false, connectMs: 0 },
      {
        head: ({ status }) => {
          heads.push(status);
          exchange!.close();
        },
        failed: () => heads.push(0),
      },
    );
    await until(() => peer.connections[0]?.closed === true);
    expect(heads).toEqual([200]);
  });

  test("an answer that is unpacked: what is pending fails, and nothing more is unpacked", async () => {
    const packed = gzipSync(Buffer.from(crypto.getRandomValues(new Uint8Array(4_096))));
    using peer = await engine(({ socket, requests }) => {
      const head = `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${packed.length}\r\n\r\n`;
      socket.write(
        Buffer.concat([Buffer.from(head), packed.subarray(0, requests[0]!.endsWith("all") ? undefined : 2_000)]),
      );
    });
    const half = send(peer.url);
    await half.head;
    const text = half.exchange.text();
    await new Promise((resolve) => setTimeout(resolve, 30));
    half.exchange.close();
    expect(await error(Promise.resolve(text))).toBeInstanceOf(Error);
    const all = send(peer.url, { body: "all" });
    await all.head;
    await new Promise((resolve) => setTimeout(resolve, 30));
    all.exchange.close();
    expect(await error(Promise.resolve(all.exchange.text()))).toBeInstanceOf(Error);
  });

  test("after the end is nothing, and the connection stays", async () => {
    using peer = await engine(({ socket }) => socket.write(OK));
    const { exchange, head } = send(peer.url);
    await head;
    expect(await exchange.text()).toBe("ok");
    await new Promise(setImmediate);
    exchange.close();
    expect(await whole(send(peer.url))).toBe("ok");
    expect(peer.connections.length).toBe(1);
  });

  test("while much of the request is unsent", async () => {
    using peer = await engine(() => {});
    const { exchange, head } = send(peer.url, { body: "x".repeat(50_000_000) });
    await until(() => peer.connections.length === 1);
    peer.connections[0]!.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 20));
    exchange.close();
    expect(await error(head)).toBeInstanceOf(Error);
    peer.connections[0]!.socket.resume();
    await until(() => peer.connections[0]!.closed);
  });
});

/** For a script of another process. */
function source(name: string): string {
  return JSON.stringify(new URL(`../../../src/${name}`, import.meta.url).pathname);
}

test("where there are no files left no engine is to blame", async () => {
  using peer = await engine(({ socket }) => socket.write(OK));
  const script = `
    const { bunTransport } = await import(${source("runtime/bun.ts")});
    const { Pieces } = await import(${source("json/pieces.ts")});
    const { closeSync, openSync } = require("node:fs");
    const send = () => new Promise((head, failed) => {
      bunTransport.send(${JSON.stringify(peer.url)}, { headers: {}, body: new Pieces([]), fresh: true, connectMs: 0 }, { head, failed });
    });
    const files = [];
    try { for (;;) files.push(openSync("/dev/null", "r")); } catch {}
    const { code, cause } = await send().catch((error) => error);
    for (const file of files) closeSync(file);
    console.log(code, cause.message, (await send()).status);`;
  const limited = ["sh", "-c", 'ulimit -n 256; exec "$0" "$@"', process.execPath, "-e", script];
  const child = Bun.spawn(limited, { stdout: "pipe", stderr: "pipe" });
  expect(await new Response(child.stdout).text()).toBe("internal No files are left to this process (ulimit -n) 200\n");
});

test("idle connections keep no process alive, requests do", async () => {
  using peer = await engine(({ socket }) => setTimeout(() => socket.write(OK), 100));
  const script = `
    const { bunTransport } = await import(${source("runtime/bun.ts")});
    const { Pieces } = await import(${source("json/pieces.ts")});
    const exchange = bunTransport.send(${JSON.stringify(peer.url)}, { headers: {}, body: new Pieces([]), fresh: false, connectMs: 0 }, {
      head: async () => console.log(await exchange.text()), failed: console.error,
    });`;
  const from = performance.now();
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "pipe" });
  expect([await new Response(child.stdout).text(), await child.exited]).toEqual(["ok\n", 0]);
  expect(performance.now() - from).toBeLessThan(5_000);
});
