import { expect, test } from "bun:test";
import { ScriptedEngine } from "./engine.ts";
import { prefillAnswer } from "./prefill-answers.ts";
import { RawClient } from "./raw-client.ts";
import { startRouter } from "./router-process.ts";
import { atRest, eventually, serveRouter, stopAll } from "./served-router.ts";
import { contentEvent, paths, requestBody } from "./streams.ts";

const api = "chat";
/** `FAULTS_CLIENTS=100` for the size that the contract of memory speaks of. */
const CLIENTS = Number(process.env.FAULTS_CLIENTS ?? 20);
const MIB = 1_048_576;
/** 100 stopped clients below 512 MiB. */
const MEMORY = (CLIENTS * 512 * MIB) / 100;

test(`${CLIENTS} clients that stop reading an endless stream stop decode too, and cost the router bounded memory`, async () => {
  const block = Buffer.concat(Array.from({ length: 40 }, () => contentEvent(api, "x".repeat(1_400))));
  const prefill = await ScriptedEngine.start(async (wire) => {
    await wire.pause(5);
    await wire.json(200, prefillAnswer("sglang", api));
  });
  const decode = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "text/event-stream");
    for (;;) await wire.chunk(block);
  });
  // Silence is shorter than the test: a client that does not read is not decode's.
  const router = await startRouter(prefill.url, decode.url, { idleMs: 300 });
  const clients: RawClient[] = [];
  const start = () => new RawClient({ port: router.port, path: paths[api], body: requestBody(api, true) });
  try {
    const first = start();
    await first.until(4 * MIB);
    first.hangUp();
    await router.rests(5_000);
    const before = await router.rss();
    for (let n = 0; n < CLIENTS; n++) {
      const client = start();
      clients.push(client);
      await client.until(64 * 1024);
      client.socket.pause();
    }
    // Decode stands still: for half a second not a byte more is taken from any engine.
    let last = -1;
    let since = 0;
    await eventually(20_000, () => {
      const now = decode.exchanges.reduce((sum, { written }) => sum + written, 0);
      if (now !== last) since = performance.now();
      last = now;
      return performance.now() - since > 500 ? "" : "decode is still being read";
    });
    const after = await router.rss();
    expect(await router.metric("worker_in_flight")).toBe(CLIENTS);
    if (before !== undefined && after !== undefined) expect(after - before).toBeLessThan(MEMORY);
    // Who reads on gets the rest.
    const [reader] = clients;
    const had = reader!.received;
    reader!.socket.resume();
    await reader!.until(had + 24 * MIB);
    expect(reader!.received).toBeGreaterThanOrEqual(had + 24 * MIB);
    for (const client of clients) client.hangUp("reset");
    await router.rests(5_000);
    await eventually(2_000, () => (decode.open + prefill.open === 0 ? "" : `${decode.open} streams are still open`));
  } finally {
    for (const client of clients) client.hangUp();
    await router.stop();
    await Promise.all([prefill.close(), decode.close()]);
  }
}, 60_000);

test("an engine's answer without end to the prefill leg is read away and kept only up to its bound", async () => {
  const piece = Buffer.alloc(64 * 1024, 0x20);
  const prefill = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "application/json");
    for (let sent = 0; sent < 64 * MIB; sent += piece.length) await wire.chunk(piece);
    await wire.end();
  });
  const decode = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "text/event-stream");
    await wire.chunk(contentEvent(api, "word"));
    await wire.pause(300);
    await wire.silence();
  });
  const server = serveRouter({
    mode: "sglang",
    prefill: [prefill.url],
    decode: [decode.url],
    config: { limits: { tailBytes: MIB } },
  });
  try {
    const client = new RawClient({ port: server.port, path: paths[api], body: requestBody(api, true) });
    await client.until(100);
    await eventually(15_000, () => (prefill.exchanges[0]?.over === true ? "" : "prefill is not read to its end"));
    client.hangUp();
    await atRest(server, [prefill, decode], 2_000);
  } finally {
    await stopAll(server, [prefill, decode]);
  }
}, 30_000);
