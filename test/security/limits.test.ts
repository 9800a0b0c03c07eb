import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { createRouter } from "../../src/create-router.ts";
import type { RouterServer } from "../../src/runtime/server.ts";
import { ScriptedEngine } from "../faults/engine.ts";
import { type RouterProcess, startRouter } from "../faults/router-process.ts";
import { serveRouter, stopAll } from "../faults/served-router.ts";
import { call, chat, EngineHouse, routerOver } from "../fleet/house.ts";
import { ManualClock, settle } from "../simulator/support.ts";
import { postLine, rawRequest } from "./raw.ts";

const MIB = 1_048_576;

function fill(piece: string, bytes: number): string {
  return piece.repeat(Math.floor(bytes / piece.length));
}

/** Bodies of nearly 32 MiB that are cheap to send and would be dear to hold as objects. */
const DEAR: readonly (readonly [name: string, path: string, body: () => string, status: number])[] = [
  ["members", "/v1/chat/completions", () => `{"model":"m",${fill('"a":1,', 31 * MIB)}"messages":[]}`, 400],
  ["a model that is a list", "/v1/chat/completions", () => `{"model":[${fill("[],", 31 * MIB)}[]],"messages":[]}`, 400],
  ["lists as n", "/v1/completions", () => `{"model":"m","prompt":"x","n":[${fill("[],", 31 * MIB)}[]]}`, 500],
  ["prompts", "/v1/completions", () => `{"model":"m","prompt":[${fill('"",', 31 * MIB)}""]}`, 400],
  ["token ids", "/v1/completions", () => `{"model":"m","prompt":[[${fill("[],", 31 * MIB)}[]]]}`, 500],
  [
    "stream options",
    "/v1/chat/completions",
    () => `{"model":"m","messages":[],"stream":true,"stream_options":{${fill('"a":1,', 31 * MIB)}"b":1}}`,
    400,
  ],
  [
    "sampling parameters",
    "/generate",
    () => `{"model":"m","text":"x","sampling_params":{${fill('"a":1,', 31 * MIB)}"b":1}}`,
    400,
  ],
  [
    "a list of sampling parameters",
    "/generate",
    () => `{"model":"m","text":"x","sampling_params":[${fill("{},", 31 * MIB)}{}]}`,
    400,
  ],
  ["flags", "/generate", () => `{"model":"m","text":"x","return_logprob":[${fill("1,", 31 * MIB)}1]}`, 500],
];

describe("a body within the limit costs about its own size", () => {
  let router: RouterProcess;
  beforeAll(async () => {
    // Nobody listens there: what counts is what the router does before.
    router = await startRouter("http://127.0.0.2:9", "http://127.0.0.2:10", {});
  });
  afterAll(() => router.stop());

  test("whatever it is made of, and whatever it pretends to be", async () => {
    const before = (await router.rss()) ?? 0;
    let most = 0;
    for (const [name, path, body, status] of DEAR) {
      const sent = fetch(`http://127.0.0.1:${router.port}${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: body(),
      });
      let over = false;
      const answered = sent.finally(() => {
        over = true;
      });
      while (!over) {
        most = Math.max(most, (await router.rss()) ?? 0);
        await Bun.sleep(20);
      }
      const response = await answered;
      await response.text();
      // 500 stands for "went on, and found nobody": refused connections, or a breaker that knows them by now.
      expect({ name, status: Math.min(response.status, 500) }).toEqual({ name, status });
    }
    // The bytes, their text, two legs that are spliced from it, and what the collector has not got round to.
    expect(Math.round((most - before) / MIB)).toBeLessThan(600);
  }, 60_000);
});

describe("limits of size", () => {
  test("one member more than 65,536 is a 400 that says so; a thousand options of one kind are too many", async () => {
    const { router } = routerOver(new EngineHouse(), onePool());
    const members = (count: number) => `{"model":"m","messages":[]${',"a":1'.repeat(count - 2)}}`;
    const refused = await call(router, "POST", "/v1/chat/completions", members(65_537));
    expect([refused.status, refused.json.error.message]).toEqual([400, "The body has too many members"]);
    const passed = await call(router, "POST", "/v1/chat/completions", members(65_536));
    expect(passed.status).toBe(502);
    const options = `{"model":"m","messages":[],"stream":true,"stream_options":{${'"a":1,'.repeat(1_024)}"b":1}}`;
    const many = await call(router, "POST", "/v1/chat/completions", options);
    expect([many.status, many.json.error.param]).toEqual([400, "stream_options"]);
  });

  test("more than 65,536 prompts are a 400, token ids and rows of embeddings are no prompts", async () => {
    const { router } = routerOver(new EngineHouse(), onePool());
    const ask = (path: string, body: string) => call(router, "POST", path, body);
    const many = await ask("/v1/completions", `{"model":"m","prompt":[${'"x",'.repeat(65_536)}"x"]}`);
    expect([many.status, many.json.error.param]).toEqual([400, "prompt"]);
    expect((await ask("/v1/completions", `{"model":"m","prompt":[${"1,".repeat(70_000)}1]}`)).status).toBe(502);
    const rows = `{"model":"m","input_embeds":[${"[0.5],".repeat(70_000)}[0.5]]}`;
    expect((await ask("/generate", rows)).status).toBe(502);
  });

  test("depth: 512 levels pass, 513 are a 400", async () => {
    const { router } = routerOver(new EngineHouse(), onePool());
    const nested = (depth: number) => `{"model":"m","messages":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
    expect((await call(router, "POST", "/v1/chat/completions", nested(513))).status).toBe(400);
    expect((await call(router, "POST", "/v1/chat/completions", nested(512))).status).toBe(502);
  });

  test("a body that comes too slowly gives up its place, on every route that reads one", async () => {
    for (const path of ["/v1/chat/completions", "/v1/embeddings"]) {
      for (const headers of [{}, { "content-length": "100" }] as Record<string, string>[]) {
        const clock = new ManualClock();
        const { router } = routerOver(
          new EngineHouse(),
          { ...onePool(), limits: { concurrency: 1 }, timeouts: { totalMs: 30_000 } },
          { clock },
        );
        const dripping = new ReadableStream<Uint8Array>({
          pull(controller) {
            controller.enqueue(new TextEncoder().encode(" "));
            return new Promise(() => {});
          },
        });
        const request = new Request(`http://router${path}`, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: dripping,
        });
        const pending = router.fetch(request);
        await settle();
        expect((await call(router, "POST", path, chat())).json.error.code).toBe("router_overloaded");
        await clock.advance(30_100);
        const response = await pending;
        expect(response.status).toBe(400);
        expect(await response.text()).toContain("did not arrive within 30000 ms");
        expect((await call(router, "POST", path, chat())).json.error.code).not.toBe("router_overloaded");
      }
    }
  });
});

describe("limits of the front door", () => {
  let engine: ScriptedEngine;
  let server: RouterServer;
  beforeAll(async () => {
    engine = await ScriptedEngine.start((wire) => wire.json(200, '{"choices":[]}'));
    server = serveRouter({ mode: "aggregated", decode: [engine.url], config: { limits: { bodyBytes: 1_000 } } });
  });
  afterAll(() => stopAll(server, [engine]));

  const body = '{"model":"m","messages":[{"role":"user","content":"x"}]}';
  const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: r\r\ncontent-type: application/json\r\n";
  const refused: readonly (readonly [string, string, number])[] = [
    ["a header of 100 KB", `GET /health HTTP/1.1\r\nhost: r\r\nx-big: ${"a".repeat(100_000)}\r\n\r\n`, 431],
    ["5000 headers", `GET /health HTTP/1.1\r\nhost: r\r\n${"x-h: 1\r\n".repeat(5_000)}\r\n`, 431],
    ["a target of 200 KB", `GET /${"a".repeat(200_000)} HTTP/1.1\r\nhost: r\r\n\r\n`, 431],
    ["length and chunks at once", `${head}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    ["two lengths", `${head}content-length: 4\r\ncontent-length: ${body.length}\r\n\r\n${body}`, 400],
    ["a negative length", `${head}content-length: -5\r\n\r\n`, 400],
    ["a length in hexadecimal", `${head}content-length: 0x38\r\n\r\n${body}`, 400],
    ["a carriage return in a header", "GET /health HTTP/1.1\r\nhost: r\r\nx-request-id: a\rx-a: b\r\n\r\n", 400],
    ["no host", "GET /health HTTP/1.1\r\n\r\n", 400],
    ["HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
    ["a body over the limit by its length", `${head}content-length: 1001\r\n\r\n`, 413],
    [
      "a body over the limit in chunks",
      `${head}transfer-encoding: chunked\r\n\r\n3e9\r\n${" ".repeat(1001)}\r\n0\r\n\r\n`,
      413,
    ],
  ];

  test.each(refused)("%s is refused, and no engine hears of it", async (_, bytes, status) => {
    const before = engine.exchanges.length;
    expect((await rawRequest(server.port, bytes)).status).toBe(status);
    expect(engine.exchanges).toHaveLength(before);
    expect((await rawRequest(server.port, postLine("/v1/chat/completions", body))).status).toBe(200);
  });

  test("connections that never finish their headers take no place from those that do", async () => {
    const slow = Array.from({ length: 50 }, () => connect(server.port, "127.0.0.1"));
    for (const socket of slow) socket.write("POST /v1/chat/completions HTTP/1.1\r\nhost: r\r\nx-a: ");
    expect((await rawRequest(server.port, postLine("/v1/chat/completions", body))).status).toBe(200);
    expect(server.router.active()).toBe(0);
    for (const socket of slow) socket.destroy();
  });
});

describe("what engines say of themselves is read up to a limit", () => {
  test("endless answers to probes, questions and listings end", async () => {
    const house = new EngineHouse();
    let sent = 0;
    let cancelled = 0;
    const piece = new Uint8Array(65_536).fill(0x20);
    function endless(): Response {
      const body = new ReadableStream<Uint8Array>({
        pull(controller) {
          sent += piece.length;
          if (sent > 256 * MIB) controller.close();
          else controller.enqueue(piece);
        },
        cancel() {
          cancelled += 1;
        },
      });
      return new Response(body);
    }
    house.engines.set("http://p1:1", endless).set("http://d1:1", endless);
    const router = createRouter({
      config: { ...onePool(), health: { intervalMs: 1_000 }, log: { level: "silent" } },
      transport: house.transport,
    });
    await router.control.tend();
    const listed = await router.fetch(new Request("http://router/v1/models"));
    expect(await listed.json()).toMatchObject({ data: [{ id: "m" }] });
    const asked = house.paths("http://p1:1").length + house.paths("http://d1:1").length;
    expect(asked).toBeGreaterThan(3);
    expect(cancelled).toBe(asked);
    expect(sent).toBeLessThan(asked * 5 * MIB);
  });
});

function onePool(): Record<string, unknown> {
  return {
    models: [
      {
        id: "m",
        pools: [{ engine: "sglang", prefill: ["http://p1:1"], decode: ["http://d1:1"], workers: ["http://w:1"] }],
      },
    ],
    retries: { maxRetries: 0 },
  };
}
