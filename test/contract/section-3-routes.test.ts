import { describe, expect, test } from "bun:test";
import { handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { paths, requestBody } from "../faults/streams.ts";
import { DONE, finish, say } from "../relay/hand-made.ts";
import { POOL, post, TWO_MODELS, told } from "./lab.ts";

/** Contract section 3: the table of routes, the table of splits, and the sentences under them. */

const FORWARDED = ["/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/classify", "/tokenize", "/detokenize"] as const;
const APIS = ["chat", "completions", "responses", "messages", "generate"] as const;
const WORKERS = [
  { name: "w1", url: "http://w1:1" },
  { name: "w2", url: "http://w2:1" },
];
const ALONE = { engine: "openai", prefill: [], decode: [], workers: WORKERS };

describe("the split path, as far as the engine knows it", () => {
  const table: Record<string, readonly string[]> = {
    sglang: APIS,
    vllm: ["chat", "completions", "responses", "messages"],
    trtllm: ["chat", "completions"],
  };
  for (const [engine, splits] of Object.entries(table)) {
    for (const api of APIS) {
      test(`${engine}: ${api} ${splits.includes(api) ? "is split" : 'is 400 with param "endpoint", or an aggregated worker\'s'}`, async () => {
        const split = handRouter({ engine });
        const answer = post(split.router, api, requestBody(api, false));
        await settled();
        if (splits.includes(api)) {
          expect(split.sent()[0]).toBe("p1");
          expect(new URL(split.at("p1").url).pathname).toBe(paths[api]);
          return;
        }
        expect(await told(answer)).toMatchObject({
          status: 400,
          code: "invalid_request",
          error: { param: "endpoint", type: "invalid_request_error" },
        });
        expect(split.sent()).toEqual([]);
        const whole = handRouter({ engine, workers: WORKERS });
        const asked = post(whole.router, api, requestBody(api, false));
        await settled();
        expect(whole.sent()).toEqual(["w1"]);
        whole.at("w1").json({ choices: [] });
        expect((await asked).headers.get("x-router-path")).toBe("aggregated");
      });
    }
  }

  test("previous_response_id and background: true are 400 under a split, and fine on one worker", async () => {
    for (const more of [{ previous_response_id: "resp_1" }, { background: true }]) {
      for (const engine of ["sglang", "vllm"]) {
        const { ask, sent } = handRouter({ engine });
        const { response } = ask({ messages: undefined, input: "x", ...more }, { path: "/v1/responses" });
        expect(await told(response)).toMatchObject({
          status: 400,
          code: "invalid_request",
          error: { param: Object.keys(more)[0] },
        });
        expect(sent()).toEqual([]);
      }
      const { ask, sent } = handRouter(ALONE);
      ask({ messages: undefined, input: "x", ...more }, { path: "/v1/responses" });
      await settled();
      expect(sent()).toEqual(["w1"]);
    }
    const { ask, sent } = handRouter();
    ask({ messages: undefined, input: "x", previous_response_id: null, background: false }, { path: "/v1/responses" });
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("/generate without model goes to the only SGLang model, else 400", async () => {
    const one = handRouter({}, { models: TWO_MODELS });
    post(one.router, "generate", '{"text":"x"}');
    await settled();
    expect(one.sent()).toEqual(["p1", "d1"]);
    expect(one.at("p1").body).not.toContain('"model"');
    const urls = (host: string) => ({
      ...POOL,
      prefill: [{ url: `http://${host}a:1` }],
      decode: [{ url: `http://${host}b:1` }],
    });
    const two = handRouter(
      {},
      {
        models: [
          { id: "m", pools: [urls("x")] },
          { id: "n", pools: [urls("y")] },
        ],
      },
    );
    expect(await told(post(two.router, "generate", '{"text":"x"}'))).toMatchObject({
      status: 400,
      error: { param: "model" },
    });
    const none = handRouter({ engine: "vllm" });
    expect(await told(post(none.router, "generate", '{"text":"x"}'))).toMatchObject({ status: 400 });
    for (const { sent } of [two, none]) expect(sent()).toEqual([]);
  });
});

describe("one aggregated worker, no split; none configured: 404", () => {
  test.each(FORWARDED)("%s", async (path) => {
    const body = '{ "model":"m", "input":["x"], "n": 9007199254740993,"rid":"mine" }';
    const split = handRouter();
    expect(await told(post(split.router, path, body))).toMatchObject({ status: 404, code: "not_found" });
    expect(split.sent()).toEqual([]);
    const whole = handRouter({ engine: "sglang", workers: WORKERS });
    const answer = post(whole.router, path, body);
    await settled();
    expect(whole.sent()).toEqual(["w1"]);
    expect(whole.at("w1").url).toBe(`http://w1:1${path}`);
    expect(whole.at("w1").body).toBe('{ "model":"m", "input":["x"], "n": 9007199254740993 }');
    whole.at("w1").whole('{"data":[]}');
    expect(await textOf(answer)).toBe('{"data":[]}');
  });

  test("a worker that refuses or resets is tried elsewhere, as any request is before its status is committed", async () => {
    for (const how of ["refuse", "reset"] as const) {
      const { router, at, sent, blamed, clock, load } = handRouter(ALONE);
      const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
      await settled();
      at("w1")[how]();
      await clock.advance(2_000);
      expect(sent()).toEqual(["w1", "w2"]);
      expect(at("w2").headers["x-request-id"]).not.toBe(at("w1").headers["x-request-id"]!);
      at("w2").whole('{"data":[]}');
      expect(await textOf(answer)).toBe('{"data":[]}');
      expect([blamed("w1"), blamed("w2"), load()]).toEqual([1, 0, 0]);
    }
  });

  test("a worker that is alone gets a second try on a new connection: its idle one was stale", async () => {
    const { router, at, sent } = handRouter({ ...ALONE, workers: WORKERS.slice(0, 1) });
    const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    at("w1").reset();
    await settled();
    expect(sent()).toEqual(["w1", "w1"]);
    at("w1", 1).whole('{"data":[]}');
    expect((await answer).status).toBe(200);
  });

  test("an error, or half an answer, inside a 200 is decode_failed", async () => {
    for (const [body, status] of [
      ['{"error":{"message":"x","code":529}}', 529],
      ['{"object":"error","message":"x","code":400}', 400],
      ['{"error":"x"}', 502],
      ['{"data":', 502],
      ["", 502],
    ] as const) {
      const { router, at } = handRouter(ALONE, { retries: { maxRetries: 0 } });
      const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
      await settled();
      at("w1").whole(body);
      expect(await told(answer)).toMatchObject({ status, code: "decode_failed" });
    }
    const { router, at } = handRouter(ALONE, { retries: { maxRetries: 0 } });
    const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    // Without a length, a cut connection looks like an end.
    at("w1").head({ "content-type": "application/json" }).push('{"data":[{"embedding":[1,2]}').end();
    expect(await told(answer)).toMatchObject({ status: 502, code: "decode_failed" });
    for (const text of [
      '{"data":["the \\"error\\" of"],"error":null}',
      "[[1],[2]]",
      '{"detail":"x","object":"list"}',
    ]) {
      const good = handRouter(ALONE);
      const asked = post(good.router, "/tokenize", '{"model":"m","prompt":"x"}');
      await settled();
      good.at("w1").whole(text);
      expect(await textOf(asked)).toBe(text);
    }
  });

  test("totalMs holds for all tries together", async () => {
    const { router, at, clock } = handRouter(ALONE, { timeouts: { totalMs: 100 } });
    const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    await clock.advance(60);
    at("w1").reset();
    await settled();
    await clock.advance(40);
    expect(await told(answer)).toMatchObject({ status: 504, code: "decode_timeout" });
    expect(at("w2").closed).toBe(true);
  });

  test("a client that leaves in the pause between two tries: nothing more is sent", async () => {
    const { ask, at, sent, clock, load, router } = handRouter(ALONE, { retries: { backoffMs: 1_000 } });
    const { response, leave } = ask({}, { path: "/v1/embeddings", body: '{"model":"m","input":"x"}' });
    await settled();
    at("w1").refuse();
    await settled();
    leave();
    await response;
    await clock.advance(10_000);
    expect([sent().length, load(), router.active(), clock.timers.size]).toEqual([1, 0, 0, 0]);
  });

  test("so is a 503, and its Retry-After is heeded by the next request", async () => {
    const { router, at, sent } = handRouter(ALONE);
    const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    at("w1").json({ error: { message: "full" } }, 503, { "retry-after": "30" });
    await settled();
    at("w2").whole('{"data":[]}');
    expect((await answer).status).toBe(200);
    post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    expect(sent()).toEqual(["w1", "w2", "w2"]);
  });

  test("a 4xx is not, nor is anything with maxRetries 0", async () => {
    const { router, at, sent } = handRouter(ALONE);
    const answer = post(router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    at("w1").json({ error: { message: "bad" } }, 400);
    expect((await answer).status).toBe(400);
    expect(sent()).toEqual(["w1"]);
    const once = handRouter(ALONE, { retries: { maxRetries: 0 } });
    const asked = post(once.router, "/v1/embeddings", '{"model":"m","input":"x"}');
    await settled();
    once.at("w1").refuse();
    expect(await told(asked)).toMatchObject({ status: 502, code: "decode_unreachable" });
    expect(once.sent()).toEqual(["w1"]);
  });

  test("an alias goes to the worker as the model's id and comes back as the client's name", async () => {
    const models = [{ id: "m", aliases: ["ada"], pools: [{ name: "p", engine: "openai", workers: WORKERS }] }];
    const { router, at } = handRouter({}, { models });
    const answer = post(router, "/v1/embeddings", '{"model":"ada","input":"model m"}');
    await settled();
    expect(at("w1").body).toBe('{"model":"m","input":"model m"}');
    at("w1").whole('{"object":"list","model":"m","data":[{"model":"m"}],"x":1e400}');
    expect(await textOf(answer)).toBe('{"object":"list","model":"ada","data":[{"model":"m"}],"x":1e400}');
  });
});

describe("GET /v1/models, /v1/models/{id}: union over pools, engine fields kept, aliases and adapters listed", () => {
  const models = [
    { id: "org/m", aliases: ["gpt-x"], adapters: ["lora/1"], pools: [POOL] },
    { id: "other", pools: [{ name: "o", engine: "openai", workers: [{ url: "http://w1:1" }] }] },
  ];
  const said = {
    object: "list",
    data: [
      { id: "org/m", object: "model", created: 7, owned_by: "vllm", max_model_len: 4096, permission: [{ id: "x" }] },
      { id: "lora/1", object: "model", parent: "org/m", root: "/path" },
    ],
  };

  async function list(path: string, down: readonly string[] = []) {
    const { router, transport } = handRouter({}, { models });
    transport.onRequest = (request) => {
      if (down.some((host) => request.url.startsWith(`http://${host}`))) request.refuse();
      else request.json(request.url.startsWith("http://w1") ? { object: "list", data: [{ id: "other", x: 1 }] } : said);
    };
    const response = await router.fetch(new Request(`http://router${path}`));
    return { status: response.status, body: (await response.json()) as Record<string, unknown>, transport };
  }

  test("every name once, with what its engine says of it", async () => {
    const { body } = await list("/v1/models");
    const data = body.data as { id: string; [key: string]: unknown }[];
    expect(data.map(({ id }) => id)).toEqual(["org/m", "gpt-x", "lora/1", "other"]);
    expect(data[0]).toEqual(said.data[0]!);
    expect(data[1]).toMatchObject({ id: "gpt-x", max_model_len: 4096 });
    expect(data[2]).toEqual(said.data[1]!);
    expect(data[3]).toMatchObject({ id: "other", x: 1 });
  });

  test("listed even with workers down, one or all", async () => {
    for (const down of [
      ["d1", "p1"],
      ["d1", "d2", "p1", "p2", "w1"],
    ]) {
      const { status, body } = await list("/v1/models", down);
      expect(status).toBe(200);
      expect((body.data as { id: string }[]).map(({ id }) => id)).toEqual(["org/m", "gpt-x", "lora/1", "other"]);
    }
  });

  test("engines that hang hold up nobody", async () => {
    const { router, clock, transport } = handRouter();
    transport.onRequest = (request) => {
      if (request.url.startsWith("http://d2")) request.json({ object: "list", data: [{ id: "m", x: 1 }] });
    };
    const answer = await router.fetch(new Request("http://router/v1/models"));
    expect(((await answer.json()) as { data: { x: number }[] }).data[0]!.x).toBe(1);
    transport.onRequest = undefined;
    await clock.advance(60_000);
    const silent = Promise.resolve(router.fetch(new Request("http://router/v1/models")));
    await settled();
    await clock.advance(2_000);
    expect((await silent).status).toBe(200);
  });

  test("one answer of each pool: the first pool that knows a name describes it, whichever answers first", async () => {
    const pool = (name: string) => ({ name, engine: "openai", workers: [{ name, url: `http://${name}:1` }] });
    const { router, at, clock, transport, sent } = handRouter(
      {},
      { models: [{ id: "m", adapters: ["lora"], pools: [pool("a"), pool("b"), pool("c")] }] },
    );
    const get = async (path: string) => {
      const answer = await router.fetch(new Request(`http://router${path}`));
      return (await answer.json()) as { data: object[] };
    };
    const listed = get("/v1/models");
    await settled();
    const lora = { id: "lora", parent: "m", root: "/lora", rank: 8 };
    at("b").json({ object: "list", data: [{ id: "m", x: "b" }, lora] });
    await clock.advance(50);
    at("a").json({ object: "list", data: [{ id: "m", x: "a" }] });
    await clock.advance(2_000);
    expect((await listed).data).toEqual([{ id: "m", x: "a" }, lora]);
    // Nobody waits for "c" again, nor asks the others, until what is known is old.
    expect(await get("/v1/models/lora")).toEqual(lora as object as { data: object[] });
    expect(sent()).toHaveLength(3);
    transport.onRequest = (request) => request.refuse();
    await clock.advance(60_000);
    expect((await get("/v1/models")).data).toEqual([{ id: "m", x: "a" }, lora]);
  });

  test.each(["org/m", "org%2Fm", "gpt-x", "lora/1", "lora%2F1", "other"])("one by its name: %s", async (name) => {
    const { status, body } = await list(`/v1/models/${name}`);
    expect(status).toBe(200);
    expect(body.id).toBe(decodeURIComponent(name));
    expect(body.object ?? "model").toBe("model");
  });

  test("neither: 404 model_not_found, in the shape of all errors", async () => {
    const { router } = handRouter({}, { models });
    for (const name of ["org", "ORG/M", "m", "gpt-x%20", "__proto__"]) {
      expect(await told(Promise.resolve(router.fetch(new Request(`http://router/v1/models/${name}`))))).toMatchObject({
        status: 404,
        code: "model_not_found",
        error: { type: "not_found_error" },
      });
    }
  });

  test("names are exact in requests too", async () => {
    for (const name of ["Org/m", "org/m ", "", "gpt-X", "constructor", "http://127.0.0.1:9999"]) {
      const { router, sent } = handRouter({}, { models });
      expect(await told(post(router, "chat", JSON.stringify({ model: name, messages: [] })))).toMatchObject({
        status: 404,
        code: "model_not_found",
        error: { param: "model" },
      });
      expect(sent()).toEqual([]);
    }
  });
});

describe("GET /health, /ready, /metrics, /openapi.json, /docs, /", () => {
  test("/health is 200 {status: ok} while nobody is usable and while the router shuts down", async () => {
    const { router, worker } = handRouter();
    for (const name of ["p1", "p2", "d1", "d2"]) worker(name).draining = true;
    void router.shutdown(1_000);
    const response = await router.fetch(new Request("http://router/health"));
    expect([response.status, await response.text()]).toEqual([200, '{"status":"ok"}']);
  });

  test("/ready: each model needs one prefill and one decode worker in one pool, or one aggregated worker", async () => {
    const pool = (n: number) => ({
      ...POOL,
      name: `pool${n}`,
      prefill: [{ name: `p${n}`, url: `http://p${n}:1` }],
      decode: [{ name: `d${n}`, url: `http://d${n}:1` }],
    });
    const models = [
      { id: "m", pools: [pool(1), pool(2)] },
      { id: "other", pools: [{ name: "o", engine: "openai", workers: [{ name: "w1", url: "http://w1:1" }] }] },
    ];
    const lab = handRouter({}, { models });
    const ready = async () => {
      const response = await lab.router.fetch(new Request("http://router/ready"));
      return [response.status, await response.json()] as [number, { models: Record<string, { reason?: string }> }];
    };
    expect((await ready())[0]).toBe(200);
    lab.worker("p1").draining = true;
    expect((await ready())[0]).toBe(200);
    // One of each kind is left, but not in one pool.
    lab.worker("d2").draining = true;
    const [status, body] = await ready();
    expect(status).toBe(503);
    expect(String(body.models.m!.reason).length).toBeGreaterThan(0);
    expect(body.models.other!.reason).toBeUndefined();
    lab.worker("p1").draining = false;
    lab.worker("w1").draining = true;
    expect((await ready())[0]).toBe(503);
    lab.worker("w1").draining = false;
    expect((await ready())[0]).toBe(200);
    void lab.router.shutdown(1_000);
    expect((await ready())[0]).toBe(503);
  });

  test("an aggregated worker makes a split pool ready", async () => {
    const { router, worker } = handRouter({ engine: "sglang", workers: WORKERS });
    worker("p1").draining = true;
    worker("p2").draining = true;
    expect((await router.fetch(new Request("http://router/ready"))).status).toBe(200);
  });

  test("/metrics has the prefix prefill_router_ on every series", async () => {
    const { router, at, ask } = handRouter();
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head().push(say("a"), finish(), DONE).end();
    await textOf(response);
    const got = await router.fetch(new Request("http://router/metrics"));
    expect(got.headers.get("content-type")).toStartWith("text/plain");
    const lines = (await got.text()).split("\n").filter((line) => line !== "");
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) expect(line).toMatch(/^(?:# (?:HELP|TYPE) )?prefill_router_/);
  });

  test("HEAD is answered where GET is, without a body", async () => {
    const { router } = handRouter();
    for (const path of ["/health", "/ready", "/metrics", "/openapi.json", "/docs", "/"]) {
      const get = await router.fetch(new Request(`http://router${path}`));
      const head = await router.fetch(new Request(`http://router${path}`, { method: "HEAD" }));
      expect({ path, status: head.status }).toEqual({ path, status: get.status });
      expect(head.headers.get("content-type")).toBe(get.headers.get("content-type"));
      expect(await head.text()).toBe("");
    }
  });
});

describe("wrong method is 405 with Allow, anything else 404, never forwarded", () => {
  const routes: [path: string, allow: string][] = [
    ...[...Object.values(paths), ...FORWARDED].map((path): [string, string] => [path, "POST"]),
    ...["/v1/models", "/v1/models/m", "/health", "/ready", "/metrics", "/openapi.json", "/docs", "/"].map(
      (path): [string, string] => [path, "GET"],
    ),
  ];
  test.each(routes)("%s takes %s", async (path, allow) => {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND", "PURGE"]) {
      if (method === allow || (method === "HEAD" && allow === "GET")) continue;
      const { router, sent } = handRouter();
      const response = await router.fetch(new Request(`http://router${path}`, { method }));
      const got = [method, response.status, response.headers.get("allow"), response.headers.get("x-router-error-code")];
      expect(got).toEqual([method, 405, allow, "method_not_allowed"]);
      expect(sent()).toEqual([]);
    }
  });

  test.each([
    "/v1/unknown",
    "/flush_cache",
    "/V1/chat/completions",
    "/v1/chat/completions/",
    "/health/x",
    "/generate/",
  ])("%s is 404", async (path) => {
    const { router, sent } = handRouter();
    for (const method of ["GET", "POST", "DELETE"]) {
      expect(await told(Promise.resolve(router.fetch(new Request(`http://router${path}`, { method }))))).toMatchObject({
        status: 404,
        code: "not_found",
      });
    }
    expect(sent()).toEqual([]);
  });
});

describe("minPromptTokens and onNoPrefill (section 2, disaggregation)", () => {
  test("short prompts skip the prefill leg: aggregated where there is one, else decode-only; long ones do not", async () => {
    for (const [pool, first, path] of [
      [{ engine: "vllm", workers: WORKERS }, "w1", "aggregated"],
      [{ engine: "vllm" }, "d1", "decode-only"],
    ] as const) {
      const { ask, sent, at } = handRouter(pool, { disaggregation: { minPromptTokens: 100 } });
      const { response } = ask({ stream: false });
      await settled();
      expect(sent()).toEqual([first]);
      at(first).json({ choices: [] });
      expect((await response).headers.get("x-router-path")).toBe(path);
      ask({ messages: [{ role: "user", content: "word ".repeat(400) }] });
      await settled();
      expect(sent()).toEqual([first, "p1"]);
    }
  });

  test("a prefill that cannot be reached is none, also before a health check has noticed", async () => {
    const single = { prefill: [{ name: "p1", url: "http://p1:1" }], decode: [{ name: "d1", url: "http://d1:1" }] };
    for (const [pool, config, path] of [
      [{ engine: "vllm", ...single }, { disaggregation: { onNoPrefill: "decode-only" } }, "decode-only"],
      [{ engine: "sglang", ...single, workers: WORKERS }, {}, "aggregated"],
    ] as const) {
      const { ask, transport, clock } = handRouter(pool, config);
      transport.onRequest = (request) => {
        if (request.url.startsWith("http://p1")) request.refuse();
        else if (path === "decode-only" || request.url.startsWith("http://w")) request.json({ choices: [] });
      };
      const { response } = ask({ stream: false });
      await clock.advance(2_000);
      const got = await response;
      expect([got.status, got.headers.get("x-router-path")]).toEqual([200, path]);
    }
  });

  test("a leg that answers 502, 503 or 504 and is the only one of its role leaves the request to an aggregated worker", async () => {
    for (const role of ["p1", "d1"]) {
      const pool = {
        engine: "vllm",
        prefill: [{ name: "p1", url: "http://p1:1" }],
        decode: [{ name: "d1", url: "http://d1:1" }],
        workers: [{ name: "w", url: "http://w:1" }],
      };
      const { ask, transport } = handRouter(pool);
      transport.onRequest = (request) => {
        if (request.url.includes(role)) request.json({ error: { message: "full" } }, 503);
        else request.json(request.url.includes("p1") ? nixlAnswer() : { choices: [] });
      };
      const { response } = ask({ stream: false });
      expect((await response).headers.get("x-router-path")).toBe("aggregated");
    }
  });

  test("a busy prefill is not none: decode is not asked to do its work", async () => {
    const pool = {
      engine: "vllm",
      prefill: [{ name: "p1", url: "http://p1:1" }],
      decode: [{ name: "d1", url: "http://d1:1" }],
    };
    const { ask, transport, sent } = handRouter(pool, { disaggregation: { onNoPrefill: "decode-only" } });
    transport.onRequest = (request) => request.json({ error: { message: "full" } }, 503, { "retry-after": "3" });
    const { response } = ask({ stream: false });
    expect(await told(response)).toMatchObject({ status: 503, code: "prefill_failed" });
    expect(sent()).toEqual(["p1"]);
  });

  test("decode-only sends the client's body as it is, without transfer members, and says so", async () => {
    const { ask, sent, at, worker } = handRouter(
      { engine: "vllm" },
      { disaggregation: { onNoPrefill: "decode-only" } },
    );
    worker("p1").draining = true;
    worker("p2").draining = true;
    const { response } = ask({}, { body: '{"model":"m","messages":[],"seed":9223372036854775807}' });
    await settled();
    expect(sent()).toEqual(["d1"]);
    expect(at("d1").body).toBe('{"model":"m","messages":[],"seed":9223372036854775807}');
    at("d1").json({ choices: [] });
    const got = await response;
    expect(got.headers.get("x-router-path")).toBe("decode-only");
    expect(got.headers.get("x-router-prefill")).toBeNull();
  });
});

describe("x-router-path says which way it went", () => {
  test("prefill-only: prefill's answer was the answer", async () => {
    const { ask, at, sent } = handRouter({ engine: "vllm" });
    const { response } = ask({ stream: false });
    await settled();
    at("p1").json({
      choices: [{ index: 0, message: { content: "" }, finish_reason: "stop" }],
      kv_transfer_params: null,
    });
    const got = await response;
    expect([got.status, got.headers.get("x-router-path"), got.headers.get("x-router-prefill")]).toEqual([
      200,
      "prefill-only",
      "p1",
    ]);
    expect(sent()).toEqual(["p1"]);
  });

  test("disaggregated: with pool, prefill and decode by name", async () => {
    const { ask, at } = handRouter({ engine: "vllm" });
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").json({ choices: [] });
    const { headers } = await response;
    expect(["path", "pool", "prefill", "decode"].map((name) => headers.get(`x-router-${name}`))).toEqual([
      "disaggregated",
      "p",
      "p1",
      "d1",
    ]);
  });
});
