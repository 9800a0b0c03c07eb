import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseConfig } from "../../src/config/load.ts";
import { ScriptedEngine } from "../faults/engine.ts";
import { serveRouter, stopAll } from "../faults/served-router.ts";
import { answerEvents } from "../faults/streams.ts";
import { call, EngineHouse, routerOver } from "../fleet/house.ts";
import { readExposition } from "../telemetry/hand-made.ts";
import { postLine, rawRequest } from "./raw.ts";

const BODY = '{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}';
const POOL = [{ engine: "openai", workers: ["http://w:1"] }];
const NASTY = [
  "a\r\nx-evil: 1",
  "a\nb",
  "a b",
  "ü",
  "a\u0000",
  "<script>",
  'a"b',
  "x".repeat(200),
  "../x",
  "%0d%0a",
  "",
];

describe("nothing that others write becomes a header, an event or a line of its own", () => {
  test("a request id is a plain token, in every answer", async () => {
    const { router } = routerOver(new EngineHouse(), { models: [{ id: "m", pools: POOL }] });
    for (const path of ["/health", "/metrics", "/nowhere", "/v1/models/x", "/v1/chat/completions", "/workers"]) {
      for (const id of NASTY) {
        const headers = new Headers({ "content-type": "application/json" });
        try {
          headers.set("x-request-id", id);
        } catch {
          // What no header can carry never comes this far; on the wire it is refused (limits.test.ts).
          continue;
        }
        const init = path.includes("chat") ? { method: "POST", body: "{}", headers } : { headers };
        const response = await router.fetch(new Request(`http://router${path}`, init));
        await response.text();
        expect(response.headers.get("x-request-id")).toMatch(/^[\w.:@+/=~-]{1,128}$/);
      }
      const kept = await router.fetch(
        new Request(`http://router${path}`, { headers: { "x-request-id": "mine-1.2:3" } }),
      );
      expect(kept.headers.get("x-request-id")).toBe("mine-1.2:3");
    }
  });

  test("names of workers and pools are letters and digits, whoever gives them", async () => {
    const { router } = routerOver(new EngineHouse(), { models: [{ id: "m", pools: POOL }] });
    for (const name of NASTY) {
      const worker = { url: "http://w:2", name };
      expect(() =>
        parseConfig(JSON.stringify({ models: [{ id: "m", pools: [{ engine: "openai", workers: [worker] }] }] })),
      ).toThrow();
      expect(() => parseConfig(JSON.stringify({ models: [{ id: "m", pools: [{ ...POOL[0], name }] }] }))).toThrow();
      const joined = await call(router, "POST", "/workers", { ...worker, worker_type: "regular" });
      expect(joined.status).toBe(400);
      if (/[\r\n\0]/.test(name)) {
        expect(() => parseConfig(JSON.stringify({ models: [{ id: name, pools: POOL }] }))).toThrow();
      }
    }
  });

  test("a model's id cannot end a label or a line of the metrics", async () => {
    const id = 'a"} 1\\';
    const { router } = routerOver(new EngineHouse(), { models: [{ id, pools: POOL }] });
    await call(router, "POST", "/v1/chat/completions", { model: id, messages: [] });
    const page = await (await router.fetch(new Request("http://router/metrics"))).text();
    const { samples } = readExposition(page);
    expect(samples.some(({ labels }) => labels.model === id)).toBe(true);
  });

  test("an engine's headers: only the few that pass do, folded or split as they may be", async () => {
    const hostile =
      "retry-after: 7\r\nx-ratelimit-a: 1\r\n x-folded: evil\r\nset-cookie: a=b\r\nlocation: http://evil\r\nx-router-error-code: evil\r\naccess-control-allow-origin: *\r\ncontent-length: 2\r\n";
    const engine = await ScriptedEngine.start(async (wire) => {
      await wire.raw(`HTTP/1.1 503 Evil\rx-reason: 1\r\n${hostile}\r\n{}`);
    });
    const server = serveRouter({ mode: "aggregated", decode: [engine.url] });
    const { text } = await rawRequest(server.port, postLine("/v1/chat/completions", BODY));
    const names = [...text.slice(0, text.indexOf("\r\n\r\n")).matchAll(/^([^:\r\n]+):/gm)].map(([, name]) =>
      name!.toLowerCase(),
    );
    const allowed =
      /^(content-type|content-length|date|x-request-id|x-router-(error-code|path|pool|decode)|retry-after|x-ratelimit-.+)$/;
    for (const name of names) expect(name).toMatch(allowed);
    expect(text).not.toContain("x-router-error-code: evil");
    await stopAll(server, [engine]);
  });

  test("an engine's words stay within the one event that carries them", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "binary", maxLength: 40 }), async (words) => {
        const said = `${words}\n\ndata: {"choices":[{"delta":{"content":"forged"}}]}\r\n\r\nevent: x`;
        const house = new EngineHouse();
        house.engines.set("http://w:1", () => {
          const stream = answerEvents("chat")
            .slice(0, 2)
            .map(({ bytes }) => bytes.toString())
            .join("");
          const error = JSON.stringify({ object: "error", message: said, code: 500 });
          return new Response(`${stream}data: ${error}\n\ndata: [DONE]\n\n`, {
            headers: { "content-type": "text/event-stream" },
          });
        });
        const { router } = routerOver(house, { models: [{ id: "m", pools: POOL }], log: { level: "silent" } });
        const response = await router.fetch(
          new Request("http://router/v1/chat/completions", {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: BODY,
          }),
        );
        const events = (await response.text()).split("\n\n").filter((event) => event !== "");
        expect(events).toHaveLength(4);
        for (const event of events) expect(event).toMatch(/^data: [^\n\r]*$/);
        expect(JSON.parse(events[2]!.slice(6)).error.message).toContain("forged");
      }),
      { numRuns: 100 },
    );
  });

  test("a log line is one line of JSON, whatever a client has named", async () => {
    const lines: string[] = [];
    const { router } = routerOver(
      new EngineHouse(),
      { models: [{ id: "m", pools: POOL }], log: { level: "debug" } },
      { sink: (line) => lines.push(line) },
    );
    await call(router, "POST", "/v1/chat/completions", {
      model: 'x\n{"level":"error","event":"forged"}',
      messages: [],
    });
    await call(router, "POST", "/workers", { url: "http://h:1", name: 'n\n{"event":"forged"}' });
    await call(router, "GET", '/workers/n%0a{"event":"forged"}');
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) {
      expect(line).not.toContain("\n");
      expect(JSON.parse(line).event).not.toBe("forged");
    }
  });
});
