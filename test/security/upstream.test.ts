import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RouterServer } from "../../src/runtime/server.ts";
import { ScriptedEngine } from "../faults/engine.ts";
import { serveRouter, stopAll } from "../faults/served-router.ts";
import { postLine, rawRequest } from "./raw.ts";

const BODY = '{"model":"m","messages":[{"role":"user","content":"x"}]}';
const GENERATION = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate"];
const OTHERS = ["/v1/embeddings", "/v1/rerank", "/tokenize", "/v1/models", "/health", "/workers", "/v1/unknown", "/"];

describe("no client chooses where the router connects", () => {
  let canary: ScriptedEngine;
  let engine: ScriptedEngine;
  let server: RouterServer;
  let contacts = 0;

  beforeAll(async () => {
    canary = await ScriptedEngine.start(async (wire) => wire.json(200, '{"canary":true}'));
    engine = await ScriptedEngine.start(async (wire) => wire.json(200, '{"choices":[]}'));
    server = serveRouter({ mode: "aggregated", decode: [engine.url] });
  });
  afterAll(() => stopAll(server, [canary, engine]));

  /** Connections as well as requests: a look at the address would be contact enough. */
  function expectUntouched(): void {
    contacts += canary.exchanges.length + canary.connections;
    expect(contacts).toBe(0);
  }

  test("by a header, on any route and method", async () => {
    const host = new URL(canary.url).host;
    const headers = {
      "x-prefiller-url": canary.url,
      "x-prefiller-host-port": host,
      "x-worker-url": canary.url,
      "x-portkey-custom-host": canary.url,
      "x-forwarded-host": host,
      "x-original-url": `${canary.url}/x`,
      "x-rewrite-url": `${canary.url}/x`,
      "x-override-worker": canary.url,
      "x-dynamo-worker": canary.url,
      "x-smg-target-worker": canary.url,
      "x-router-prefill": canary.url,
      forwarded: `host=${host}`,
      host,
    };
    for (const path of [...GENERATION, ...OTHERS]) {
      for (const method of ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
        const body = method === "GET" || method === "OPTIONS" ? {} : { body: BODY };
        const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
          method,
          headers: { ...headers, "content-type": "application/json" },
          redirect: "manual",
          ...body,
        });
        expect(await response.text()).not.toContain("canary");
        expect(response.status).toBeLessThan(500);
      }
    }
    expectUntouched();
  });

  test("by the request target: absolute form, two slashes, dot segments, encoded slashes, CONNECT", async () => {
    const host = new URL(canary.url).host;
    const targets = [
      `${canary.url}/v1/unknown`,
      `//${host}/health`,
      `//${host}/v1/chat/completions`,
      "/v1/../flush_cache",
      "/v1/%2e%2e/flush_cache",
      "/v1%2Fchat%2Fcompletions",
      `/v1/chat/completions/http://${host}`,
      "/V1/chat/completions",
      "/v1/chat/completions/",
      "/v1/chat/completions;x=/../../flush_cache",
      "/\\\\evil/flush_cache",
    ];
    const before = engine.exchanges.length;
    for (const target of targets) {
      const reply = await rawRequest(server.port, postLine(target, BODY));
      expect({ target, status: reply.status }).toEqual({ target, status: 404 });
    }
    const tunnel = await rawRequest(server.port, `CONNECT ${host} HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
    expect(tunnel.status).toBe(404);
    expect(engine.exchanges).toHaveLength(before);
    // The absolute form of a route that exists is that route, here: its host is nobody's.
    expect((await rawRequest(server.port, postLine(`${canary.url}/v1/chat/completions`, BODY))).status).toBe(200);
    expectUntouched();
  });

  test("by the model's name, or by members that name a worker", async () => {
    const host = new URL(canary.url);
    const named = [
      { model: canary.url },
      { model: "m", bootstrap_host: host.hostname, bootstrap_port: Number(host.port), bootstrap_room: 1 },
      { model: "m", kv_transfer_params: { remote_host: host.hostname, remote_port: Number(host.port) } },
      { model: "m", disaggregated_params: { ctx_info_endpoint: canary.url } },
      { model: "m", bootstrap_pair_key: canary.url, ec_transfer_params: { url: canary.url } },
    ];
    for (const path of [...GENERATION, "/v1/embeddings"]) {
      for (const more of named) {
        const before = engine.exchanges.length;
        const body = JSON.stringify({ ...more, messages: [], prompt: "x", input: "x", text: "x" });
        const reply = await rawRequest(server.port, postLine(path, body));
        expect(reply.status).toBe(more.model === "m" ? 200 : 404);
        for (const { request } of engine.exchanges.slice(before)) {
          expect(request.body).not.toContain(host.port);
        }
      }
    }
    expectUntouched();
  });

  test("and no engine sends it elsewhere: redirects are 502, their target is never asked", async () => {
    const target = await ScriptedEngine.start(async (wire) => wire.json(200, '{"canary":true}'));
    for (const mode of ["aggregated", "sglang", "vllm", "trtllm"] as const) {
      for (const status of [301, 302, 303, 307, 308]) {
        const turn = () => ScriptedEngine.start((wire) => wire.json(status, "{}", `location: ${target.url}/v1/x\r\n`));
        const [prefill, decode] = [await turn(), await turn()];
        const router = serveRouter({ mode, prefill: [prefill.url], decode: [decode.url] });
        const reply = await rawRequest(
          router.port,
          postLine("/v1/chat/completions", BODY, { authorization: "Bearer client-secret" }),
        );
        expect({ mode, status, got: reply.status }).toEqual({ mode, status, got: 502 });
        expect(reply.text).not.toContain("location");
        await stopAll(router, [prefill, decode]);
      }
    }
    expect(target.exchanges.length + target.connections).toBe(0);
    await target.close();
  });
});
