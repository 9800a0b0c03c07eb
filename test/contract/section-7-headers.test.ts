import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { ScriptedEngine } from "../faults/engine.ts";
import { ask as askRaw } from "../faults/raw-client.ts";
import { serveRouter, stopAll } from "../faults/served-router.ts";
import { requestBody } from "../faults/streams.ts";
import { DONE, finish, say } from "../relay/hand-made.ts";
import { POOL, post, told } from "./lab.ts";

/** Contract section 7: what comes in, what goes out to the client, what goes to engines. */

const ENV = { TEAM: "team-key", ADMIN: "admin-key", WORKER: "worker-key" };
const CHECKED = { auth: { clientKeys: [{ name: "team", keyEnv: "TEAM" }], adminKeyEnv: "ADMIN" } };
const JSON_TYPE = { "content-type": "application/json" };

function keyed(prefill: object, decode: object = {}): object {
  return {
    models: [
      {
        id: "m",
        pools: [
          {
            ...POOL,
            prefill: [{ name: "p1", url: "http://p1:1", ...prefill }],
            decode: [{ name: "d1", url: "http://d1:1", ...decode }],
          },
        ],
      },
    ],
  };
}

describe("in: a client's key is read from authorization: Bearer or x-api-key", () => {
  test.each([
    [{ authorization: "Bearer team-key" }, 200],
    [{ authorization: "bearer   team-key" }, 200],
    [{ "x-api-key": "team-key" }, 200],
    [{ authorization: "Basic abc", "x-api-key": "team-key" }, 200],
    [{}, 401],
    [{ authorization: "Bearer" }, 401],
    [{ authorization: "team-key" }, 401],
    [{ "api-key": "team-key" }, 401],
    [{ authorization: "Bearer team-keyx" }, 401],
    [{ authorization: "Bearer admin-key" }, 401],
    [{ "x-api-key": "" }, 401],
  ] as [Record<string, string>, number][])("%j: %d", async (headers, status) => {
    const { router, sent, at } = handRouter({ engine: "sglang" }, CHECKED, ENV);
    const response = post(router, "chat", requestBody("chat", false), headers);
    await settled();
    if (status === 200) {
      at("p1").json(PREFILLED);
      at("d1").json({ choices: [] });
    }
    expect((await response).status).toBe(status);
    expect(sent()).toEqual(status === 200 ? ["p1", "d1"] : []);
  });

  test("once checked, none of the client's keys is passed on", async () => {
    const { router, at } = handRouter({ engine: "sglang" }, CHECKED, ENV);
    const keys = { authorization: "Bearer team-key", "x-api-key": "other", "api-key": "third" };
    post(router, "chat", requestBody("chat", false), keys);
    await settled();
    for (const leg of ["p1", "d1"]) {
      for (const name of Object.keys(keys)) expect(at(leg).headers[name]).toBeUndefined();
      expect(JSON.stringify(at(leg).headers) + at(leg).body).not.toContain("team-key");
    }
  });

  test("no client key for /health, /ready, /metrics, /openapi.json, /docs and the shell; one for everything else", async () => {
    const { router } = handRouter({ engine: "sglang" }, CHECKED, ENV);
    const get = async (path: string) => (await router.fetch(new Request(`http://router${path}`))).status;
    for (const path of ["/health", "/ready", "/metrics", "/openapi.json", "/docs", "/"]) {
      expect([path, await get(path)]).toEqual([path, 200]);
    }
    for (const path of ["/v1/models", "/v1/models/m"]) expect([path, await get(path)]).toEqual([path, 401]);
    for (const path of ["/workers", "/workers/p1", "/dashboard/events"])
      expect([path, await get(path)]).toEqual([path, 401]);
    for (const path of ["/v1/chat/completions", "/v1/embeddings", "/generate", "/tokenize"] as const) {
      expect(await told(post(router, path, "{}"))).toMatchObject({ status: 401, code: "unauthorized" });
    }
  });
});

describe("to engines: authorization by one rule", () => {
  const own = { authorization: "Bearer mine" };
  test("the worker's apiKeyEnv if set, on an open router and on one that checks keys", async () => {
    for (const [config, headers] of [
      [{}, own],
      [CHECKED, { authorization: "Bearer team-key" }],
    ] as const) {
      const { router, at } = handRouter({}, { ...keyed({ apiKeyEnv: "WORKER" }), ...config }, ENV);
      post(router, "chat", requestBody("chat", false), headers);
      await settled();
      expect(at("p1").headers.authorization).toBe("Bearer worker-key");
      expect(at("d1").headers.authorization).toBe(config === CHECKED ? undefined : "Bearer mine");
    }
  });

  test("else the client's header as it came", async () => {
    const { router, at } = handRouter();
    post(router, "chat", requestBody("chat", false), { authorization: "Custom  x y", "x-api-key": "k" });
    await settled();
    for (const leg of ["p1", "d1"]) {
      expect(at(leg).headers.authorization).toBe("Custom  x y");
      expect(at(leg).headers["x-api-key"]).toBe("k");
    }
  });

  test("probes, model listings and the forwarded routes carry the worker's key and nothing of a client", async () => {
    const pool = {
      engine: "openai",
      prefill: [],
      decode: [],
      workers: [{ name: "w", url: "http://w:1", apiKeyEnv: "WORKER" }],
    };
    const { router, transport, clock } = handRouter(pool, CHECKED, ENV);
    transport.onRequest = (request) => request.json({ object: "list", data: [{ id: "m" }] });
    void router.control.tend();
    await clock.advance(100);
    await router.fetch(
      new Request("http://router/v1/models", { headers: { authorization: "Bearer team-key", "x-own": "1" } }),
    );
    await post(router, "/v1/embeddings", '{"model":"m","input":"x"}', { "x-api-key": "team-key" });
    const urls = transport.requests.map(({ url }) => new URL(url).pathname);
    expect(urls).toEqual(expect.arrayContaining(["/health", "/v1/models", "/v1/embeddings"]));
    for (const { url, headers, method } of transport.requests) {
      expect([url, headers.authorization]).toEqual([url, "Bearer worker-key"]);
      expect(JSON.stringify(headers)).not.toContain("team-key");
      if (method === "GET") expect(headers["x-own"]).toBeUndefined();
    }
  });
});

describe("to engines: ids, traces, encodings", () => {
  test("an id of the router's own, unique per attempt, equal on the two legs", async () => {
    for (const engine of ["sglang", "vllm", "trtllm"]) {
      const { ask, at, sent } = handRouter({ engine });
      ask({ stream: false }, { headers: { ...JSON_TYPE, "x-request-id": "client-1" } });
      await settled();
      at("p1").reset();
      await settled();
      const first = at("p1").headers["x-request-id"]!;
      const second = at("p2").headers["x-request-id"]!;
      if (engine === "vllm") {
        at("p2").whole(nixlAnswer());
        await settled();
      }
      if (engine !== "trtllm") {
        const decode = sent()
          .filter((name) => name.startsWith("d"))
          .at(-1)!;
        const last = at(decode, sent().filter((name) => name === decode).length - 1);
        expect(last.headers["x-request-id"]).toBe(second);
      }
      expect(new Set([first, second, "client-1"]).size).toBe(3);
    }
  });

  test("unique per part of a split request", async () => {
    const { ask, transport } = handRouter({ engine: "sglang" });
    ask({ n: 3 });
    await settled();
    const ids = transport.requests.map(({ headers }) => headers["x-request-id"]);
    expect(ids).toHaveLength(6);
    expect(new Set(ids).size).toBe(3);
  });

  test("xfer-… and remote_request_id are made from it (Mooncake, NIXL push)", async () => {
    const push = handRouter({
      engine: "vllm",
      connector: "nixl-push",
      prefill: [{ name: "p1", url: "http://p1:1", engineId: "e", kvHost: "10.0.0.1", kvPort: 5600 }],
    });
    push.ask();
    await settled();
    const id = push.at("d1").headers["x-request-id"]!;
    expect(push.at("p1").headers["x-request-id"]).toBe(id);
    expect(push.at("d1").body).toContain(`${id}`);
    expect(new URL(push.at("p1").url).pathname).toBe(new URL(push.at("d1").url).pathname);
  });

  test("trace context: the client's trace goes on on both legs, garbage breaks nothing, baggage stands alone", async () => {
    const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (const [headers, expected] of [
      [
        { traceparent: trace, tracestate: "a=1", baggage: "k=v" },
        { tracestate: "a=1", baggage: "k=v" },
      ],
      [{ baggage: "k=v" }, { baggage: "k=v" }],
      [{ traceparent: "garbage", tracestate: "a=1" }, {}],
    ] as const) {
      const { ask, at } = handRouter();
      ask({}, { headers: { ...JSON_TYPE, ...headers } });
      await settled();
      for (const leg of ["p1", "d1"]) {
        expect(at(leg).headers).toMatchObject(expected);
        if ("tracestate" in headers && !("tracestate" in expected)) expect(at(leg).headers.tracestate).toBeUndefined();
        expect(at(leg).headers.traceparent ?? "").not.toContain("garbage");
      }
      const traces = ["p1", "d1"].map((leg) => at(leg).headers.traceparent?.split("-")[1]);
      expect(traces[0]).toBe(traces[1]);
      if ("traceparent" in headers && headers.traceparent === trace) expect(traces[0]).toBe(trace.split("-")[1]);
    }
  });
});

describe("out to the client", () => {
  test.each([
    ["abc-1.2:3@x_y+z", "abc-1.2:3@x_y+z"],
    ["run/7=~", "run/7=~"],
    ["a".repeat(129), "a".repeat(128)],
    ["has space", "hasspace"],
    ["<script>é\"'", "script"],
    ["<>", /^req-[0-9a-f]{16}$/],
    ["", /^req-[0-9a-f]{16}$/],
  ] as [string, string | RegExp][])("x-request-id: %j comes back as %p", async (id, cleaned) => {
    const { router } = handRouter();
    for (const [path, init] of [
      ["/v1/none", {}],
      ["/health", {}],
      ["/v1/chat/completions", { method: "POST", body: "{" }],
      ["/v1/embeddings", { method: "POST", body: "{" }],
    ] as const) {
      const response = await router.fetch(
        new Request(`http://router${path}`, { ...init, headers: { ...JSON_TYPE, "x-request-id": id } }),
      );
      const got = response.headers.get("x-request-id")!;
      if (typeof cleaned === "string") expect([path, got]).toEqual([path, cleaned]);
      else expect(got).toMatch(cleaned);
    }
  });

  test("from decode only content-type, retry-after, x-ratelimit-*; on streams no-cache and no buffering", async () => {
    const inner = { server: "uvicorn", "set-cookie": "a=b", "x-inner": "1", date: "x", etag: "y", "x-request-id": "e" };
    for (const stream of [true, false]) {
      const { ask, at } = handRouter();
      const { response } = ask({ stream });
      await settled();
      at("p1").json(PREFILLED, 200, { "x-ratelimit-prefill": "1" });
      const headers = { ...inner, "x-ratelimit-limit-requests": "9", "retry-after": "3" };
      if (stream) at("d1").head(headers).push(say("a"), finish(), DONE).end();
      else at("d1").json({ choices: [] }, 200, headers);
      const got = await response;
      const names = [...got.headers.keys()].toSorted();
      expect(names).toEqual(
        [
          ...(stream ? ["cache-control", "x-accel-buffering"] : []),
          "content-type",
          "retry-after",
          "x-ratelimit-limit-requests",
          "x-request-id",
          "x-router-decode",
          "x-router-path",
          "x-router-pool",
          "x-router-prefill",
        ].toSorted(),
      );
      if (stream) {
        expect(got.headers.get("cache-control")).toBe("no-cache, no-transform");
        expect(got.headers.get("x-accel-buffering")).toBe("no");
        expect(got.headers.get("content-type")).toStartWith("text/event-stream");
      } else expect(got.headers.get("content-type")).toStartWith("application/json");
      expect(got.headers.get("x-request-id")).not.toBe("e");
      await got.text();
    }
  });

  test("names, never addresses: also where nobody chose a name", async () => {
    const pool = { ...POOL, prefill: ["http://10.1.2.3:30000"], decode: ["http://10.1.2.4:30001"] };
    const { router, transport } = handRouter({}, { models: [{ id: "m", pools: [pool] }] });
    const response = post(router, "chat", requestBody("chat", false));
    await settled();
    for (const request of transport.requests) request.json({ choices: [] });
    const { headers } = await response;
    for (const name of ["x-router-prefill", "x-router-decode"]) {
      expect(headers.get(name)).toBeTruthy();
      expect(headers.get(name)).not.toMatch(/10\.1\.2|3000/);
    }
  });

  test("an error tells which way the request had gone", async () => {
    const { ask, at } = handRouter({ engine: "vllm" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("p1").json({ error: { message: "x" } }, 500);
    const { headers } = await response;
    expect(["path", "pool", "prefill"].map((name) => headers.get(`x-router-${name}`))).toEqual([
      "disaggregated",
      "p",
      "p1",
    ]);
  });
});

describe("on the wire", () => {
  test("hop-by-hop and named headers, hints, cookies and query strings stay behind; host and length are the leg's own", async () => {
    const engine = await ScriptedEngine.start((wire) =>
      wire.json(200, '{"choices":[]}', "connection: close, x-inner\r\nx-inner: 1\r\n"),
    );
    const server = serveRouter({ mode: "aggregated", decode: [`${engine.url}/base/path/`] });
    try {
      const stays = {
        "x-secret-hop": "1",
        te: "trailers",
        upgrade: "h2c",
        "proxy-authorization": "x",
        "keep-alive": "timeout=5",
        cookie: "a=b",
        "content-md5": "x",
        digest: "x",
        "x-forwarded-for": "1.2.3.4",
        "x-forwarded-host": "evil",
        "x-override-x": "1",
        "x-data-parallel-rank": "3",
        "x-prefiller-url": "http://evil",
        "x-prefiller-host-port": "evil:1",
        "x-dynamo-x": "1",
        "x-smg-x": "1",
        "x-router-x": "1",
      };
      const passes = { "x-own": "kept", "openai-organization": "org", "user-agent": "me/1", accept: "text/x" };
      const body = requestBody("chat", false);
      const answer = await askRaw({
        port: server.port,
        path: "/v1/chat/completions?api_key=SECRET4&x=1",
        body,
        headers: {
          ...stays,
          ...passes,
          connection: "keep-alive, x-secret-hop",
          "accept-encoding": "gzip, br",
          host: "api.example.com",
          "content-type": "application/json; charset=utf-8",
        },
      });
      expect(answer.status).toBe(200);
      for (const name of ["x-inner", "keep-alive", "trailer"]) expect(answer.headers.has(name)).toBe(false);
      const { request } = engine.exchanges[0]!;
      for (const name of Object.keys(stays)) expect([name, request.headers.get(name) ?? null]).toEqual([name, null]);
      for (const [name, value] of Object.entries(passes))
        expect([name, request.headers.get(name)]).toEqual([name, value]);
      expect(request.headers.get("accept-encoding")).toBe("identity");
      expect(request.headers.get("host")).toBe(new URL(engine.url).host);
      expect(request.headers.get("content-length")).toBe(String(Buffer.byteLength(body)));
      expect(request.target).toBe("/base/path/v1/chat/completions");
    } finally {
      await stopAll(server, [engine]);
    }
  });

  test("no Host (HTTP/1.0, as balancers check health) or an odd one: the same routes", async () => {
    const engine = await ScriptedEngine.start((wire) => wire.json(200, '{"choices":[]}'));
    const server = serveRouter({ mode: "aggregated", decode: [engine.url] });
    try {
      const body = requestBody("chat", false);
      const posted = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
      for (const [head, status] of [
        ["GET /health HTTP/1.0\r\n\r\n", 200],
        ["GET /ready HTTP/1.0\r\nhost:\r\n\r\n", 200],
        ["GET /health HTTP/1.0\r\nhost: a b\r\n\r\n", 200],
        ["GET /none?x=//a/health HTTP/1.0\r\n\r\n", 404],
        [`POST /none?x=//a/v1/chat/completions HTTP/1.0\r\n${posted}`, 404],
        [`POST /v1/chat/completions?x=//a/b HTTP/1.0\r\n${posted}`, 200],
      ] as const) {
        expect([head, await statusOf(server.port, head)]).toEqual([head, status]);
      }
      expect(engine.exchanges).toHaveLength(1);
    } finally {
      await stopAll(server, [engine]);
    }
  });

  test("expect: 100-continue is not passed on, and the request is answered", async () => {
    const engine = await ScriptedEngine.start((wire) => wire.json(200, '{"choices":[]}'));
    const server = serveRouter({ mode: "aggregated", decode: [engine.url] });
    try {
      const response = await fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
        method: "POST",
        headers: { ...JSON_TYPE, expect: "100-continue" },
        body: requestBody("chat", false),
      });
      expect(response.status).toBe(200);
      expect(engine.exchanges[0]!.request.headers.get("expect") ?? null).toBeNull();
    } finally {
      await stopAll(server, [engine]);
    }
  });
});

describe("cors (section 2): off unless configured, never for admin routes", () => {
  const routes = ["/v1/models", "/health", "/v1/none", "/workers", "/v1/chat/completions"];
  const origin = (value: string) => ({ headers: { origin: value } });

  test("off by default", async () => {
    const { router, transport } = handRouter();
    transport.onRequest = (request) => request.refuse();
    for (const path of routes) {
      for (const method of ["GET", "OPTIONS", "POST"]) {
        const response = await router.fetch(
          new Request(`http://router${path}`, { method, ...origin("https://evil.example") }),
        );
        expect(response.headers.has("access-control-allow-origin")).toBe(false);
      }
    }
  });

  test("a configured origin and no other, on errors and frames too, with Vary", async () => {
    const { router, at, transport } = handRouter(
      { engine: "sglang" },
      { cors: { origins: ["https://good.example"] }, retries: { maxRetries: 0 } },
    );
    const good = { origin: "https://good.example" };
    const preflight = await router.fetch(
      new Request("http://router/v1/chat/completions", {
        method: "OPTIONS",
        headers: { ...good, "access-control-request-method": "POST", "access-control-request-headers": "content-type" },
      }),
    );
    expect(preflight.status).toBeLessThan(300);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(good.origin);
    const bad = await router.fetch(new Request("http://router/v1/none", { headers: good }));
    expect([bad.status, bad.headers.get("access-control-allow-origin")]).toEqual([404, good.origin]);
    expect(bad.headers.get("vary")?.toLowerCase()).toContain("origin");
    expect(bad.headers.has("access-control-allow-credentials")).toBe(false);
    const stream = post(router, "chat", requestBody("chat", true), good);
    await settled();
    at("d1").head().push(say("a")).cut();
    expect((await stream).headers.get("access-control-allow-origin")).toBe(good.origin);
    expect(await textOf(stream)).toContain("decode_failed");
    transport.onRequest = (request) => request.refuse();
    for (const path of routes) {
      const evil = await router.fetch(new Request(`http://router${path}`, origin("https://evil.example")));
      expect(evil.headers.has("access-control-allow-origin")).toBe(false);
    }
    const admin = await router.fetch(new Request("http://router/workers", { headers: good }));
    expect(admin.headers.has("access-control-allow-origin")).toBe(false);
  });
});

function statusOf(port: number, text: string): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("data", (bytes) => {
      resolve(Number(/^HTTP\/1\.[01] (\d+)/.exec(bytes.toString())?.[1]));
      socket.destroy();
    });
    socket.on("close", () => resolve(0));
    socket.on("error", () => resolve(0));
  });
}
