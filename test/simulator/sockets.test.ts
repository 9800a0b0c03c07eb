import { afterAll, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { dialOverTcp } from "../../src/runtime/simulator-dial.ts";
import {
  type ServeOptions,
  type SimulatorServer,
  serveHandler,
  serveSimulator,
} from "../../src/runtime/simulator-tcp.ts";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { SimulatedEngineOptions } from "../../src/simulator/options.ts";
import type { Script, Step } from "../../src/simulator/script.ts";
import { chat, chatText, failureOf, makeEngine, rooms, splice } from "./support.ts";

const servers: SimulatorServer[] = [];
afterAll(async () => {
  for (const server of servers) await server.close();
});

async function serve(options: Partial<SimulatedEngineOptions> = {}, more: ServeOptions = {}) {
  const engine = makeEngine({ engine: "vllm", role: "aggregated", ...options });
  const server = await serveSimulator(engine, more);
  servers.push(server);
  return { engine, server };
}

/** A client that keeps the exact bytes and how the connection ended. */
class RawClient {
  text = "";
  ended: "fin" | "rst" | undefined;
  readonly socket: Socket;
  readonly closed: Promise<void>;

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1" });
    this.socket.on("data", (bytes: Buffer) => (this.text += bytes.toString()));
    this.socket.on("end", () => (this.ended ??= "fin"));
    this.socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNRESET") this.ended = "rst";
    });
    this.closed = new Promise((resolve) => this.socket.on("close", () => resolve()));
  }

  send(body: object | string, headers = ""): void {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    this.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n${headers}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  }

  async until(mark: string | RegExp): Promise<void> {
    for (let round = 0; round < 400 && this.text.search(mark) < 0; round++) await Bun.sleep(5);
    expect(this.text).toMatch(mark);
  }
}

async function ask(fault: string, body: object): Promise<RawClient> {
  const { server } = await serve({ faults: [fault] });
  const client = new RawClient(server.port);
  client.send(body);
  return client;
}

const streaming = { ...chat, stream: true };

test("clean: chunks with their terminator, one event per chunk, and the connection lives on", async () => {
  const { server, engine } = await serve();
  const client = new RawClient(server.port);
  client.send(streaming);
  await client.until("\r\n0\r\n\r\n");
  const body = client.text.slice(client.text.indexOf("\r\n\r\n") + 4);
  const chunks = body.split(/\r\n(?=[0-9a-f]+\r\n)|^(?=[0-9a-f]+\r\n)/).filter((chunk) => chunk.includes("data: "));
  for (const chunk of chunks) expect(chunk.match(/data: /g)).toHaveLength(1);
  client.text = "";
  client.send(chat);
  await client.until('"finish_reason"');
  expect(engine.log).toHaveLength(2);
  expect(client.ended).toBeUndefined();
  client.socket.destroy();
});

test("rst: the client's socket fails with a reset, after exactly the events before it", async () => {
  const client = await ask("reset@3", streaming);
  await client.closed;
  expect(client.ended).toBe("rst");
  expect(client.text.match(/data: /g)).toHaveLength(3);
  const early = await ask("reset", chat);
  await early.closed;
  expect([early.ended, early.text]).toEqual(["rst", ""]);
});

test("fin: closed in order, without the terminator", async () => {
  const client = await ask("fin@2", streaming);
  await client.closed;
  expect(client.ended).toBe("fin");
  expect(client.text).toEndWith("\n\n\r\n");
  expect(client.text).not.toContain("0\r\n\r\n");
});

test("cut: closed within an event; a buffered body stays short of its content-length", async () => {
  const client = await ask("cut@1", streaming);
  await client.closed;
  expect(client.ended).toBe("fin");
  expect(client.text).not.toEndWith("\n\n\r\n");
  const buffered = await ask("cut", chat);
  await buffered.closed;
  const length = Number(/content-length: (\d+)/.exec(buffered.text)?.[1]);
  expect(Buffer.byteLength(buffered.text.split("\r\n\r\n")[1] ?? "")).toBeLessThan(length);
});

test("silence: the connection stays open and says nothing; the engine notices when the client leaves", async () => {
  const { server, engine } = await serve({ faults: ["silence@2"] });
  const client = new RawClient(server.port);
  client.send(streaming);
  await client.until(/(data: [\s\S]*){2}/);
  await Bun.sleep(50);
  expect([client.ended, engine.inFlight]).toEqual([undefined, 1]);
  client.socket.destroy();
  for (let round = 0; round < 100 && engine.inFlight > 0; round++) await Bun.sleep(5);
  expect([engine.inFlight, engine.stats.aborts]).toEqual([0, 1]);
});

test("idle connections are closed, before the first request and after an answer", async () => {
  const { server } = await serve({}, { idleCloseMs: 60 });
  const fresh = new RawClient(server.port);
  await fresh.closed;
  expect(fresh.ended).toBe("fin");
  const used = new RawClient(server.port);
  used.send(chat);
  await used.until('"finish_reason"');
  const answered = performance.now();
  await used.closed;
  expect(performance.now() - answered).toBeGreaterThan(40);
  expect(used.ended).toBe("fin");
});

test("a body in chunks, in pieces, and one with expect: 100-continue are read", async () => {
  const { server, engine } = await serve();
  const text = JSON.stringify({ ...chat, user: "naïve 🙂" });
  const bytes = Buffer.from(text);
  const client = new RawClient(server.port);
  client.socket.write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chu");
  await Bun.sleep(5);
  client.socket.write("nked\r\n\r\n");
  for (let at = 0; at < bytes.length; at += 50) {
    const part = bytes.subarray(at, at + 50);
    client.socket.write(Buffer.concat([Buffer.from(`${part.length.toString(16)};x=y\r\n`), part, Buffer.from("\r\n")]));
    await Bun.sleep(1);
  }
  client.socket.write("0\r\ntrailer: x\r\n\r\n");
  await client.until('"finish_reason"');
  expect(engine.log[0]?.body).toBe(text);
  client.text = "";
  client.socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: ${bytes.length}\r\n\r\n`,
  );
  await client.until("100 Continue");
  client.socket.write(bytes);
  await client.until('"finish_reason"');
  client.socket.destroy();
});

test("a request that breaks the framing rules is answered 400 and the connection closed", async () => {
  const { server } = await serve();
  for (const head of [
    "NONSENSE\r\n\r\n",
    "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
  ]) {
    const client = new RawClient(server.port);
    client.socket.write(head);
    await client.closed;
    expect(client.text).toStartWith("HTTP/1.1 400");
  }
});

test("back-pressure reaches the script: it is not drained into memory while the client does not read", async () => {
  let made = 0;
  async function* steps(): AsyncGenerator<Step> {
    for (; made < 2000; made++) yield { bytes: "x".repeat(65_536) };
  }
  const handler = async (): Promise<Script> => ({ status: 200, headers: [], steps: steps(), ending: "clean" });
  const server = await serveHandler(handler);
  servers.push(server);
  const client = new RawClient(server.port);
  client.socket.pause();
  client.send(chat);
  await Bun.sleep(200);
  const stalled = made;
  await Bun.sleep(100);
  expect(made).toBe(stalled);
  expect(stalled).toBeLessThan(1000);
  client.socket.resume();
  for (let round = 0; round < 400 && made < 2000; round++) await Bun.sleep(5);
  expect(made).toBe(2000);
  client.socket.destroy();
});

test("an engine that dies of a malformed hand-off resets its connections and refuses new ones", async () => {
  const { server, engine } = await serve({ role: "decode", timing: { itlMs: 1000 } });
  const bystander = new RawClient(server.port);
  bystander.send(streaming);
  await bystander.until("assistant");
  const killer = new RawClient(server.port);
  killer.send({ ...chat, kv_transfer_params: { do_remote_prefill: true, remote_block_ids: [[]] } });
  await bystander.closed;
  expect([bystander.ended, engine.dead]).toEqual(["rst", true]);
  expect(await failureOf(fetch(`${server.url}/health`))).toBeInstanceOf(Error);
});

test("two legs on two fabrics, as in two processes, meet over the bootstrap port", async () => {
  const prefill = makeEngine({ engine: "sglang", role: "prefill", sidePort: 1 });
  const side = await serveHandler(prefill.handleSide!);
  const prefillServer = await serveSimulator(prefill);
  servers.push(side, prefillServer);
  const { server: decode } = await serve({
    engine: "sglang",
    role: "decode",
    fabric: createFabric({ fetch: dialOverTcp }),
  });
  const { server: aggregated } = await serve({ engine: "sglang" });
  const post = (server: SimulatorServer, body: string): Promise<Response> =>
    fetch(`${server.url}/v1/chat/completions`, { method: "POST", body });
  const room = rooms("9223372036854775806", side.port);
  const decoded = post(decode, splice(JSON.stringify(streaming), room));
  expect((await post(prefillServer, splice(JSON.stringify(chat), room))).status).toBe(200);
  const right = chatText(await (await post(aggregated, JSON.stringify(streaming))).text());
  expect(chatText(await (await decoded).text())).toBe(right);
  expect(prefill.side?.stats.pairs).toBe(1);
});

test("a hand-off is read over the wire, once, by a decode of another process", async () => {
  const free = await serveHandler(async () => ({ status: 200, headers: [], steps: [], ending: "clean" }));
  const port = free.port;
  await free.close();
  const prefill = makeEngine({ engine: "vllm", role: "prefill", sidePort: port });
  servers.push(await serveHandler(prefill.handleSide!, { port }));
  const prefillServer = await serveSimulator(prefill);
  servers.push(prefillServer);
  const { server: decode, engine } = await serve({ role: "decode", fabric: createFabric({ fetch: dialOverTcp }) });
  const post = (server: SimulatorServer, body: string): Promise<Response> =>
    fetch(`${server.url}/v1/chat/completions`, { method: "POST", body });
  const asking = JSON.stringify({ ...chat, max_tokens: 1, kv_transfer_params: { do_remote_decode: true } });
  const text = await (await post(prefillServer, asking)).text();
  const params = /"kv_transfer_params":(\{.*\})\}$/.exec(text)?.[1] ?? "";
  const leg = splice(JSON.stringify(chat), { kv_transfer_params: params });
  expect((await post(decode, leg)).status).toBe(200);
  expect((await post(decode, leg)).status).toBe(200);
  expect([engine.stats.pulled, engine.stats.reused]).toEqual([1, 1]);
});

test("a decode whose prefill is not there fails after it has tried to dial", async () => {
  const { server, engine } = await serve({
    engine: "sglang",
    role: "decode",
    fabric: createFabric({ fetch: dialOverTcp }),
    timing: { dialMs: 80 },
  });
  const started = performance.now();
  const body = splice(JSON.stringify(chat), rooms("5", 1));
  const response = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", body });
  expect(response.status).toBe(500);
  expect(performance.now() - started).toBeGreaterThan(70);
  expect(engine.inFlight).toBe(0);
});
