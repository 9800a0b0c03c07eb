/**
 * What Node's `send` does, told as JSON: run by Node.
 * Arguments: the address of a worker that never takes a connection.
 */
import { closeSync, openSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { Pieces } from "../../../src/json/pieces.ts";
import type { AnswerHead, Exchange } from "../../../src/legs/exchange.ts";
import { faultBeforeHeaders, type SendRequest } from "../../../src/legs/transport.ts";
import { nodeTransport } from "../../../src/runtime/node.ts";
import { type EngineSide, TcpEngine } from "./tcp-engine.ts";

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-two: a\r\nx-two: b\r\n\r\nok";
const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const deafUrl = process.argv[2]!;

interface Sent {
  exchange: Exchange;
  head: Promise<AnswerHead>;
}

function send(
  url: string,
  { body = "{}", ...more }: Partial<Omit<SendRequest, "body">> & { body?: string } = {},
): Sent {
  const { promise, resolve, reject } = Promise.withResolvers<AnswerHead>();
  promise.catch(() => {});
  const headers = { "content-type": "application/json" };
  const request = { headers, body: new Pieces([body]), fresh: false, connectMs: 1_000 };
  return {
    exchange: nodeTransport.send!(url, { ...request, ...more }, { head: resolve, failed: reject })!,
    head: promise,
  };
}

function engine(answer: (side: EngineSide, request: string) => void): Promise<TcpEngine> {
  return new TcpEngine(answer).listen();
}

function chunk(exchange: Exchange): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => exchange.read({ chunk: resolve, cut: reject }));
}

async function failure(promise: Promise<unknown>): Promise<{ name: string; code?: string; fault: string }> {
  const error = await promise.then(
    () => new Error("none"),
    (reason) => reason,
  );
  return { name: error.name, code: error.code, fault: faultBeforeHeaders(error) };
}

async function until(holds: () => boolean): Promise<boolean> {
  for (let i = 0; i < 400 && !holds(); i++) await new Promise((resolve) => setTimeout(resolve, 5));
  return holds();
}

const cases: Record<string, () => Promise<unknown>> = {
  async keptAlive() {
    const peer = await engine(({ socket }) => socket.write(OK));
    const texts: string[] = [];
    for (let i = 0; i < 3; i++) {
      const { exchange, head } = send(peer.url);
      await head;
      texts.push(await exchange.text());
      await new Promise(setImmediate);
    }
    const { head } = send(peer.url, { fresh: true });
    const { headers } = await head;
    const seen: [string, string][] = [];
    headers.forEach((value, name) => {
      seen.push([name, value]);
    });
    return {
      texts,
      requests: peer.connections.map(({ requests }) => requests.length),
      fresh: /\r\nconnection: close\r\n/i.test(peer.connections[1]!.requests[0]!),
      seen,
      has: [headers.has("x-two"), headers.has("constructor"), headers.get("constructor")],
    };
  },
  async request() {
    const peer = await engine(({ socket }) => socket.write(OK));
    await send(peer.url, { headers: { "x-a": "gr\xfc\xdfe" }, body: '{"a":"語"}' }).head;
    const [request] = peer.connections[0]!.requests;
    return {
      line: request!.split("\r\n", 1)[0],
      header: request!.includes("\r\nx-a: gr\xfc\xdfe\r\n"),
      body: Buffer.from(request!.slice(request!.indexOf("\r\n\r\n") + 4), "latin1").toString(),
    };
  },
  async forbiddenHeader() {
    const peer = await engine(({ socket }) => socket.write(OK));
    try {
      send(peer.url, { headers: { "x-a": "a\r\nx-b: 1" } });
      return "sent";
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return [(error as Error).name, peer.connections.length];
    }
  },
  async answeredEarly() {
    const peer = await engine(({ socket }) => socket.write(OK));
    const early = send(peer.url, { body: "x".repeat(50_000_000) });
    await until(() => peer.connections.length === 1);
    peer.connections[0]!.socket.pause();
    peer.connections[0]!.socket.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
    const { status } = await early.head;
    const text = await early.exchange.text();
    await new Promise(setImmediate);
    await send(peer.url).head;
    peer.connections[0]!.socket.resume();
    return [status, text, peer.connections.length, await until(() => peer.connections[0]!.closed)];
  },
  async parts() {
    const peer = await engine(({ socket }) => socket.write(`${CHUNKED}3\r\nabc\r\n`));
    const { exchange, head } = send(peer.url);
    await head;
    const first = String(await chunk(exchange));
    peer.connections[0]!.socket.write("2\r\nde\r\n0\r\n\r\n");
    return [first, String(await chunk(exchange)), (await chunk(exchange)) === undefined];
  },
  async interim() {
    const peer = await engine(({ socket }) => socket.write(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${OK}`));
    const { exchange, head } = send(peer.url);
    return [(await head).status, await exchange.text()];
  },
  async continueFirst() {
    const peer = await engine(({ socket }) => socket.write(`HTTP/1.1 100 Continue\r\n\r\n${OK}`));
    const { exchange, head } = send(peer.url);
    return [(await head).status, await exchange.text()];
  },
  async openBody() {
    const seen: unknown[] = [];
    const bodies: [number, (side: EngineSide) => void][] = [
      [100_000, ({ socket }) => socket.end()],
      [100_000, ({ socket }) => socket.resetAndDestroy()],
      [3, ({ socket }) => socket.resetAndDestroy()],
    ];
    for (const [length, end] of bodies) {
      const peer = await engine(({ socket }) => socket.write(`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(length)}`));
      const { exchange, head } = send(peer.url);
      await head;
      // What a reset finds unread may be lost; it has all come here.
      await new Promise((resolve) => setTimeout(resolve, 50));
      let got = (await chunk(exchange))!.length;
      const more = async (): Promise<string> => {
        for (;;) {
          const part = await chunk(exchange);
          if (part === undefined) return "end";
          got += part.length;
        }
      };
      const reading = length > 3 ? undefined : more().catch(() => "failure");
      end(peer.connections[0]!);
      await new Promise((resolve) => setTimeout(resolve, 50));
      seen.push([await (reading ?? more().catch(() => "failure")), got]);
    }
    return seen;
  },
  async resetWithItsBytes() {
    const seen: unknown[] = [];
    for (const size of [2, 5_000_000]) {
      // Before the whole request has come, where it is a long one.
      const peer = await new TcpEngine(
        () => {},
        ({ socket }) => {
          socket.once("data", () => {
            socket.pause();
            socket.write(`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(100)}`);
            socket.resetAndDestroy();
          });
        },
      ).listen();
      const { exchange, head } = send(peer.url, { body: "x".repeat(size), fresh: true });
      seen.push(await head.then(() => exchange.text()).catch(() => "failure"));
    }
    return seen;
  },
  async resetWhilePaused() {
    const peer = await engine(({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.write("x".repeat(3_000_000));
    });
    const { exchange, head } = send(peer.url);
    await head;
    await new Promise((resolve) => setTimeout(resolve, 50));
    peer.connections[0]!.socket.resetAndDestroy();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return await Promise.resolve(exchange.text()).then(
      ({ length }) => length,
      () => "failure",
    );
  },
  async endWithAByteUnread() {
    const peer = await engine(({ socket }) => socket.end("HTTP/1.1 200 OK\r\n\r\nwhole"));
    const { exchange, head } = send(peer.url);
    await head;
    return [await exchange.text(), await until(() => peer.connections[0]!.closed)];
  },
  async outOfFiles() {
    const peer = await engine(({ socket }) => socket.write(OK));
    const files: number[] = [];
    try {
      for (;;) files.push(openSync("/dev/null", "r"));
    } catch {
      // That was the last one.
    }
    const { code } = await failure(send(peer.url, { fresh: true }).head);
    for (const file of files) closeSync(file);
    return [code, (await send(peer.url, { fresh: true }).head).status];
  },
  async connectTimeout() {
    const from = performance.now();
    const { name, fault } = await failure(send(`${deafUrl}/v1`, { connectMs: 100 }).head);
    const ms = performance.now() - from;
    return { name, fault, inTime: ms > 90 && ms < 1_000 };
  },
  async refused() {
    const peer = await engine(() => {});
    const { url } = peer;
    peer[Symbol.dispose]();
    return (await failure(send(url).head)).fault;
  },
  async beforeTheHead() {
    const faults: unknown[] = [];
    for (const answer of [
      ({ socket }: EngineSide) => socket.end(),
      ({ socket }: EngineSide) => socket.resetAndDestroy(),
      ({ socket }: EngineSide) => socket.end("HTTP/1.1 200 OK\r\nx:"),
    ]) {
      faults.push((await failure(send((await engine(answer)).url).head)).fault);
    }
    const peer = await engine(({ socket }) => socket.write("what?\r\n\r\n"));
    const { fault, code } = await failure(send(peer.url).head);
    return [...faults, fault, code?.startsWith("HPE_")];
  },
  async inTheBody() {
    const seen: unknown[] = [];
    for (const answer of [
      ({ socket }: EngineSide) => socket.end(`${CHUNKED}2\r\nab\r\n`),
      ({ socket }: EngineSide) => socket.end(OK.replace(": 2", ": 9")),
      ({ socket }: EngineSide) => socket.write(`${CHUNKED}2\r\nab\r\nzz\r\n`),
    ]) {
      const { exchange, head } = send((await engine(answer)).url);
      await head;
      const came = String(await chunk(exchange));
      seen.push([
        came,
        (await failure(chunk(exchange))).name !== "none",
        (await failure(chunk(exchange))).name !== "none",
      ]);
    }
    return seen;
  },
  async closing() {
    const silent = await engine(() => {});
    const early = send(silent.url);
    await until(() => silent.connections[0]?.requests.length === 1);
    early.exchange.close();
    const before = await failure(early.head);
    const closed = await until(() => silent.connections[0]!.closed);
    const speaking = await engine(({ socket }) => socket.write(`${CHUNKED}2\r\nab\r\n`));
    const late = send(speaking.url);
    await late.head;
    await chunk(late.exchange);
    const pending = failure(chunk(late.exchange));
    late.exchange.close();
    late.exchange.close();
    return [before.fault, closed, (await pending).name !== "none", await until(() => speaking.connections[0]!.closed)];
  },
  async closedBeforeItIsOpen() {
    const { exchange, head } = send(`${deafUrl}/v1`, { connectMs: 0 });
    exchange.close();
    return (await failure(head)).name !== "none";
  },
  async givenUp() {
    const failed = await Promise.all(
      Array.from({ length: 100 }, () => failure(send(`${deafUrl}/v1`, { connectMs: 20 }).head)),
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    const open = process.getActiveResourcesInfo().filter((name) => name.startsWith("TCPConnect"));
    return [failed.filter(({ fault }) => fault === "connect").length, open.length];
  },
  async unread() {
    let sent = 0;
    const peer = await engine(({ socket }) => {
      socket.write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
      const more = (): void => {
        if (sent >= 64_000_000) socket.end();
        else if (socket.write(Buffer.alloc(65_536, "x"), () => setImmediate(more))) sent += 65_536;
        else sent += 65_536;
      };
      more();
    });
    const { exchange, head } = send(peer.url);
    await head;
    await new Promise((resolve) => setTimeout(resolve, 300));
    const waiting = sent < 32_000_000;
    let got = 0;
    for (let part = await chunk(exchange); part !== undefined; part = await chunk(exchange)) got += part.length;
    return [waiting, got === sent];
  },
  async compressed() {
    const texts: unknown[] = [];
    for (const [coding, bytes] of [
      ["gzip", gzipSync("[1,2,3]".repeat(1_000))],
      ["br", brotliCompressSync("[1,2,3]".repeat(1_000))],
      ["unknown", Buffer.from("as it is")],
    ] as const) {
      const peer = await engine(({ socket }) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: ${coding}\r\ncontent-length: ${bytes.length}\r\n\r\n`);
        socket.write(bytes);
      });
      const { exchange, head } = send(peer.url);
      await head;
      texts.push((await exchange.text()).slice(0, 8));
    }
    return texts;
  },
};

const results: Record<string, unknown> = {};
for (const [name, run] of Object.entries(cases)) results[name] = await run();
console.log(JSON.stringify(results));
process.exit(0);
