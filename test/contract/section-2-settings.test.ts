import { describe, expect, test } from "bun:test";
import { createRouter } from "../../src/create-router.ts";
import { handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { requestBody } from "../faults/streams.ts";
import { HandTransport } from "../legs/hand-made.ts";
import { ManualClock } from "../manual-clock.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";
import { POOL, post, told } from "./lab.ts";

/** Contract section 2 but for `timeouts`: limits, retries, breaker, health, auth, log, weights. */

const JSON_TYPE = { "content-type": "application/json" };
const one = (more: object = {}) => ({
  engine: "sglang",
  prefill: [{ name: "p1", url: "http://p1:1" }],
  decode: [{ name: "d1", url: "http://d1:1" }],
  ...more,
});
const ALONE = (count: number, more: object = {}) => ({
  engine: "openai",
  prefill: [],
  decode: [],
  workers: Array.from({ length: count }, (_, at) => ({ name: `w${at + 1}`, url: `http://w${at + 1}:1`, ...more })),
});

describe("limits", () => {
  test("bodyBytes: exactly as many pass, one more is 413, with and without a length", async () => {
    const body = requestBody("chat", false);
    const size = body.length;
    for (const [limit, status] of [
      [size, "passes"],
      [size - 1, 413],
    ] as const) {
      for (const streamed of [true, false]) {
        const { router, sent } = handRouter(one(), { limits: { bodyBytes: limit } });
        const init = { method: "POST", headers: JSON_TYPE, body: streamed ? new Blob([body]).stream() : body };
        const response = Promise.resolve(router.fetch(new Request("http://r/v1/chat/completions", init)));
        await settled();
        if (status === 413) expect(await told(response)).toMatchObject({ status, code: "body_too_large" });
        expect(sent().length).toBe(status === 413 ? 0 : 2);
      }
    }
  });

  test("concurrency and queue: FIFO, x-request-priority first, queueMs 0 = no limit", async () => {
    const { router, at, sent, clock } = handRouter(ALONE(1), {
      limits: { concurrency: 1, queue: 3, queueMs: 0 },
    });
    const ask = (id: string, priority?: string) =>
      post(
        router,
        "chat",
        JSON.stringify({ model: "m", messages: [id] }),
        priority ? { "x-request-priority": priority } : {},
      );
    const first = ask("1");
    await settled();
    ask("2");
    ask("3");
    ask("4", "5");
    await settled();
    expect(await told(ask("5"))).toMatchObject({ status: 503, code: "router_overloaded" });
    await clock.advance(500_000);
    expect(sent()).toEqual(["w1"]);
    at("w1").json({ choices: [] });
    await first;
    await settled();
    expect(at("w1", 1).body).toContain('["4"]');
    at("w1", 1).json({ choices: [] });
    await settled();
    await settled();
    expect(at("w1", 2).body).toContain('["2"]');
  });

  test("concurrency counts a stream until its body ends", async () => {
    const { router, at } = handRouter(ALONE(1), { limits: { concurrency: 1 } });
    const stream = post(router, "chat", requestBody("chat", true));
    await settled();
    at("w1").head().push(ROLE, say("a"));
    const got = await stream;
    expect(await told(post(router, "chat", requestBody("chat", true)))).toMatchObject({ status: 503 });
    at("w1").push(finish(), DONE).end();
    await got.text();
    await settled();
    post(router, "chat", requestBody("chat", true));
    await settled();
    expect(at("w1", 1).closed).toBe(false);
  });

  test("fanout: more parts than it allows are 400 and name the member, nobody is asked", async () => {
    for (const [body, param] of [
      [{ n: 9 }, "n"],
      [{ prompt: ["a", "b", "c", "d", "e", "f", "g", "h", "i"] }, "prompt"],
      [{ prompt: ["a", "b", "c"], n: 3 }, "n"],
    ] as const) {
      const { ask, sent } = handRouter(one());
      const { response } = ask({ prompt: "x", ...body }, { path: "/v1/completions" });
      expect(await told(response)).toMatchObject({ status: 400, error: { param } });
      expect(sent()).toEqual([]);
    }
    const { ask, sent } = handRouter(one());
    ask({ n: 8 });
    await settled();
    expect(sent()).toHaveLength(16);
  });

  test("tailBytes: what is beyond is read and dropped", async () => {
    const { ask, at } = handRouter(one(), { limits: { tailBytes: 1_000 } });
    const { response } = ask();
    await settled();
    at("d1").head().push(ROLE, say("a"), finish(), DONE).end();
    const tail = at("p1").head({ "content-type": "application/json" });
    tail
      .push('{"choices":[{"index":0,"finish_reason":"length","x":"', "y".repeat(5_000), "z".repeat(5_000), '"}]}')
      .end();
    expect(await textOf(response)).toBe([ROLE, say("a"), finish(), DONE].join(""));
    await settled();
    expect(at("p1").closed).toBe(false);
    expect(tail.pulls).toBeGreaterThanOrEqual(5);
  });
});

describe("retries: before the status is committed", () => {
  test("maxRetries: that many more, each on a worker that has not failed, then the failure stands", async () => {
    const { router, transport, sent, clock } = handRouter(ALONE(4), { retries: { maxRetries: 2 } });
    transport.onRequest = (request) => request.json({ error: { message: "full" } }, 503);
    const response = post(router, "chat", requestBody("chat", false));
    await clock.advance(10_000);
    expect((await response).status).toBe(503);
    expect(sent()).toHaveLength(3);
    expect(new Set(sent()).size).toBe(3);
  });

  test.each([400, 401, 403, 404, 413, 422, 500])("%d is not tried again", async (status) => {
    const { router, transport, sent } = handRouter(ALONE(3));
    transport.onRequest = (request) => request.json({ error: { message: "x" } }, status);
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(status);
    expect(sent()).toHaveLength(1);
  });

  test("on429: off by default, on when asked for", async () => {
    for (const on429 of [undefined, false, true]) {
      const { router, transport, sent } = handRouter(ALONE(2), on429 === undefined ? {} : { retries: { on429 } });
      transport.onRequest = (request) => {
        if (sent().length === 1) request.json({ error: { message: "slow down" } }, 429, { "retry-after": "7" });
        else request.json({ choices: [] });
      };
      const response = await post(router, "chat", requestBody("chat", false));
      expect(response.status).toBe(on429 ? 200 : 429);
      if (!on429) expect(response.headers.get("retry-after")).toBe("7");
    }
  });

  test("budget 0 = no such limit; 10 retries in 10 s are always allowed", async () => {
    for (const [budget, most] of [
      [0, 30],
      [0.01, 10],
    ] as const) {
      const { router, transport } = handRouter(ALONE(3), {
        retries: { maxRetries: 1, budget },
        breaker: { enabled: false },
      });
      let requests = 0;
      transport.onRequest = (request) => {
        requests++;
        request.json({ error: { message: "x" } }, 502);
      };
      for (let n = 0; n < 30; n++) await post(router, "chat", requestBody("chat", false));
      expect({ budget, retries: requests - 30 }).toEqual({ budget, retries: most });
    }
  });

  test("backoffMs doubles to maxBackoffMs", async () => {
    const { router, transport, clock, sent } = handRouter(ALONE(6), {
      retries: { maxRetries: 4, backoffMs: 100, maxBackoffMs: 200 },
    });
    const times: number[] = [];
    transport.onRequest = (request) => {
      times.push(clock.time);
      request.refuse();
    };
    const response = post(router, "chat", requestBody("chat", false));
    while (sent().length < 5) await clock.advance(1);
    expect((await response).status).toBe(502);
    const pauses = times.slice(1).map((at, n) => at - times[n]!);
    for (const [n, full] of [100, 200, 200, 200].entries()) {
      expect(pauses[n]).toBeLessThanOrEqual(full + 1);
      expect(pauses[n]).toBeGreaterThanOrEqual(full / 2 - 1);
    }
  });

  test("a decode leg that carried a hand-off is never sent again; prefill is done anew with fresh ids", async () => {
    for (const engine of ["vllm", "trtllm"]) {
      const lab = handRouter({ engine });
      const answer =
        engine === "vllm"
          ? nixlAnswer()
          : '{"prompt_token_ids":[1],"choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}]}';
      lab.ask();
      await settled();
      lab.at("p1").whole(answer);
      await settled();
      lab.at("d1").reset();
      await settled();
      expect(lab.sent()).toEqual(["p1", "d1", "p2"]);
    }
  });
});

describe("breaker", () => {
  const fail = { error: { message: "x" } };

  test("failures in a row open it for openMs, then one request is the probe; the rest go elsewhere or are 503", async () => {
    const { router, transport, clock, sent } = handRouter(ALONE(1), {
      retries: { maxRetries: 0 },
      breaker: { failures: 3, openMs: 1_000 },
    });
    transport.onRequest = (request) => request.json(fail, 500);
    for (let n = 0; n < 3; n++) expect((await post(router, "chat", requestBody("chat", false))).status).toBe(500);
    const refused = await told(post(router, "chat", requestBody("chat", false)));
    expect(refused).toMatchObject({ status: 503, code: "no_decode_workers" });
    expect(refused.headers.get("retry-after")).toBeTruthy();
    expect((await router.fetch(new Request("http://r/ready"))).status).toBe(503);
    expect(sent()).toHaveLength(3);
    await clock.advance(1_000);
    transport.onRequest = undefined;
    const asked = Array.from({ length: 50 }, () => post(router, "chat", requestBody("chat", false)));
    await settled();
    expect(sent()).toHaveLength(4);
    transport.last.json({ choices: [] });
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    transport.onRequest = (request) => request.json({ choices: [] });
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(200);
  });

  test("4xx other than 408 and 429, 429 and 503 are neutral; 408, 5xx, resets and aborts count", async () => {
    const neutral = [400, 401, 403, 404, 413, 422, 429, 503];
    const counted = [408, 500, 502, 504, 529];
    for (const status of [...neutral, ...counted]) {
      const { router, transport, blamed } = handRouter(ALONE(1), { retries: { maxRetries: 0 } });
      transport.onRequest = (request) => request.json(fail, status);
      await post(router, "chat", requestBody("chat", false));
      expect({ status, blamed: blamed("w1") }).toEqual({ status, blamed: counted.includes(status) ? 1 : 0 });
    }
  });

  /** One worker that has failed, and whose open time is over. */
  async function halfOpen() {
    const hand = handRouter(ALONE(1), { retries: { maxRetries: 0 }, breaker: { failures: 1, openMs: 100 } });
    hand.transport.onRequest = (request) => request.json(fail, 500);
    await post(hand.router, "chat", requestBody("chat", false));
    await hand.clock.advance(100);
    return hand;
  }

  test("a neutral answer does not close a half-open one", async () => {
    const { router, transport, clock, worker } = await halfOpen();
    transport.onRequest = (request) => request.json(fail, 400);
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(400);
    await settled();
    expect(worker("w1").breaker.state(clock.time)).toBe("half-open");
  });

  test("a probe that streams an answer lets the next request try; one that fails still opens it at once", async () => {
    const { router, transport, clock, worker } = await halfOpen();
    transport.onRequest = undefined;
    const first = post(router, "chat", requestBody("chat", true));
    await settled();
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(503);
    const stream = transport.last.head().push(ROLE, say("a"));
    const reading = textOf(first);
    await settled();
    expect([worker("w1").breaker.state(clock.time), worker("w1").usable(clock.time)]).toEqual(["half-open", true]);
    transport.onRequest = (request) => request.json({ choices: [] });
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(200);
    expect(worker("w1").breaker.state(clock.time)).toBe("closed");
    stream.push(finish(), DONE).end();
    await reading;
  });

  test("a probe with a buffered answer says nothing before its end: where nobody else is left, another is let through each second", async () => {
    const { router, transport, clock, worker } = await halfOpen();
    transport.onRequest = undefined;
    post(router, "chat", requestBody("chat", false));
    await settled();
    const before = transport.requests.length;
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(503);
    await clock.advance(1_000);
    const next = post(router, "chat", requestBody("chat", false));
    await settled();
    expect(transport.requests.length).toBe(before + 1);
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(503);
    transport.last.json({ choices: [] });
    expect((await next).status).toBe(200);
    expect(worker("w1").breaker.state(clock.time)).toBe("closed");
  });

  test("enabled: false never opens", async () => {
    const { router, transport, sent } = handRouter(ALONE(1), {
      retries: { maxRetries: 0 },
      breaker: { enabled: false },
    });
    transport.onRequest = (request) => request.json(fail, 500);
    for (let n = 0; n < 12; n++) expect((await post(router, "chat", requestBody("chat", false))).status).toBe(500);
    expect(sent()).toHaveLength(12);
  });
});

describe("Retry-After of a busy worker: the others are preferred meanwhile, and it is used when it is alone", () => {
  test.each([
    [429, "5", 5_000],
    [503, "5", 5_000],
  ] as const)("%d", async (status, seconds, ms) => {
    const { router, transport, clock, sent } = handRouter(ALONE(2), { retries: { maxRetries: 0 } });
    transport.onRequest = (request) => request.json({ error: { message: "x" } }, status, { "retry-after": seconds });
    await post(router, "chat", requestBody("chat", false));
    transport.onRequest = (request) => request.json({ choices: [] });
    for (let n = 0; n < 4; n++) await post(router, "chat", requestBody("chat", false));
    expect(sent()).toEqual(["w1", "w2", "w2", "w2", "w2"]);
    await clock.advance(ms);
    for (let n = 0; n < 4; n++) await post(router, "chat", requestBody("chat", false));
    expect(sent().slice(5)).toContain("w1");
  });

  test('alone: never "no worker available"', async () => {
    const { router, transport } = handRouter(ALONE(1), { retries: { maxRetries: 0 } });
    transport.onRequest = (request) => request.json({ error: { message: "x" } }, 503, { "retry-after": "60" });
    for (let n = 0; n < 10; n++) {
      expect(await told(post(router, "chat", requestBody("chat", false)))).toMatchObject({
        status: 503,
        code: "decode_failed",
      });
    }
    transport.onRequest = (request) => request.json({ choices: [] });
    expect((await post(router, "chat", requestBody("chat", false))).status).toBe(200);
  });
});

describe("health", () => {
  async function probed(pool: object, config: object, status: (path: string) => number, ms = 60_000) {
    const lab = handRouter(pool, config);
    const paths: string[] = [];
    lab.transport.onRequest = (request) => {
      const { pathname, hostname } = new URL(request.url);
      if (request.method !== "GET" || pathname === "/server_info" || pathname === "/get_server_info")
        return request.json({}, 404);
      paths.push(`${hostname}${pathname}`);
      const answer = status(pathname);
      if (answer === 0) return;
      request.json({}, answer);
    };
    for (let at = 0; at < ms; at += 250) {
      void lab.router.control.tend();
      await lab.clock.advance(250);
    }
    return { ...lab, paths };
  }

  test("the path defaults to /health; to /ready for sglang, and where that is 404 to /health", async () => {
    const vllm = await probed(one({ engine: "vllm" }), {}, () => 200, 1_000);
    expect(new Set(vllm.paths)).toEqual(new Set(["p1/health", "d1/health"]));
    const sglang = await probed(one(), {}, () => 200, 1_000);
    expect(new Set(sglang.paths)).toEqual(new Set(["p1/ready", "d1/ready"]));
    const older = await probed(one(), {}, (path) => (path === "/ready" ? 404 : 200), 12_000);
    expect(older.paths.filter((path) => path.endsWith("/ready"))).toHaveLength(2);
    expect(older.paths).toContain("p1/health");
  });

  test("path overrides it for every engine, a 404 there is a failure", async () => {
    for (const engine of ["sglang", "vllm"]) {
      const { paths, worker, clock } = await probed(
        one({ engine }),
        { health: { path: "/ping", intervalMs: 1_000 } },
        () => 404,
        5_000,
      );
      expect(new Set(paths)).toEqual(new Set(["p1/ping", "d1/ping"]));
      expect(worker("p1").usable(clock.time)).toBe(false);
    }
  });

  test("intervalMs 0 = off", async () => {
    const { paths } = await probed(one(), { health: { intervalMs: 0 } }, () => 200);
    expect(paths).toEqual([]);
  });

  test("failures in a row make it unusable, successes usable again", async () => {
    let status = 200;
    const config = { health: { intervalMs: 1_000, failures: 2, successes: 2 } };
    const { worker, clock, router } = await probed(one({ engine: "vllm" }), config, () => status, 1_000);
    const usable = async (ms: number) => {
      for (let at = 0; at < ms; at += 250) {
        void router.control.tend();
        await clock.advance(250);
      }
      return worker("p1").usable(clock.time);
    };
    status = 500;
    expect(await usable(1_000)).toBe(true);
    expect(await usable(1_250)).toBe(false);
    expect((await router.fetch(new Request("http://r/ready"))).status).toBe(503);
    status = 200;
    expect(await usable(1_000)).toBe(false);
    expect(await usable(1_250)).toBe(true);
  });

  test("a probe that times out is a failure; not while the worker answers live requests; sglang's /health has 20 s", async () => {
    const silent = await probed(one({ engine: "vllm" }), {}, () => 0, 20_000);
    expect(silent.worker("p1").usable(silent.clock.time)).toBe(false);
    const older = await probed(one(), {}, (path) => (path === "/ready" ? 404 : 0), 20_000);
    expect(older.worker("p1").usable(older.clock.time)).toBe(true);
    const live = handRouter(ALONE(1), {});
    live.transport.onRequest = (request) => {
      if (request.method === "POST") request.json({ choices: [] });
    };
    for (let at = 0; at < 30_000; at += 1_000) {
      void live.router.control.tend();
      await live.clock.advance(1_000);
      await post(live.router, "chat", requestBody("chat", false));
    }
    expect(live.worker("w1").usable(live.clock.time)).toBe(true);
    const streams = handRouter(ALONE(1), {});
    const answering = post(streams.router, "chat", requestBody("chat", true));
    await settled();
    const stream = streams.transport.last.head().push(ROLE, say("a"));
    const reading = textOf(answering);
    for (let at = 0; at < 30_000; at += 500) {
      void streams.router.control.tend();
      stream.push(say("b"));
      await streams.clock.advance(500);
    }
    expect(streams.worker("w1").usable(streams.clock.time)).toBe(true);
    stream.push(finish(), DONE).end();
    await reading;
  });
});

describe("weight", () => {
  test.each(["round-robin", "least-load", "random", "consistent-hash", "power-of-two"])(
    "%s sends twice as much to twice the weight",
    async (policy) => {
      const pool = {
        engine: "openai",
        prefill: [],
        decode: [],
        workers: [
          { name: "w1", url: "http://w1:1", weight: 2 },
          { name: "w2", url: "http://w2:1" },
        ],
      };
      const { router, transport, sent } = handRouter(pool, { policy: { prefill: policy, decode: policy } });
      // With load by design: what is open counts, so some stay open.
      const open: (() => void)[] = [];
      transport.onRequest = (request) => {
        open.push(() => request.json({ choices: [] }));
      };
      for (let n = 0; n < 600; n++) {
        void post(router, "chat", JSON.stringify({ model: "m", messages: [`${n}`], user: `u${n}` }));
        await Promise.resolve();
        if (n % 60 === 59) {
          await settled();
          for (const end of open.splice(0, open.length / 2)) end();
        }
      }
      await settled();
      const share = sent().filter((name) => name === "w1").length / sent().length;
      expect(share).toBeGreaterThan(0.57);
      expect(share).toBeLessThan(0.77);
    },
  );
});

describe("auth", () => {
  test("a key's models: their ids open all names, an alias only itself; listings hide the rest", async () => {
    const models = [
      { id: "m", aliases: ["a"], pools: [POOL] },
      { id: "o", pools: [{ name: "o", engine: "openai", workers: [{ name: "w", url: "http://w:1" }] }] },
    ];
    const auth = {
      clientKeys: [
        { name: "one", keyEnv: "ONE", models: ["m"] },
        { name: "two", keyEnv: "TWO", models: ["a", "o"] },
      ],
    };
    const { router, transport } = handRouter({}, { models, auth }, { ONE: "key-one", TWO: "key-two" });
    transport.onRequest = (request) => request.json({ choices: [] });
    const asks = async (key: string, model: string) =>
      (await post(router, "chat", `{"model":"${model}","messages":[]}`, { authorization: `Bearer ${key}` })).status;
    expect([await asks("key-one", "m"), await asks("key-one", "a"), await asks("key-one", "o")]).toEqual([
      200, 200, 403,
    ]);
    expect([await asks("key-two", "m"), await asks("key-two", "a"), await asks("key-two", "o")]).toEqual([
      403, 200, 200,
    ]);
    const list = await router.fetch(new Request("http://r/v1/models", { headers: { "x-api-key": "key-two" } }));
    expect(((await list.json()) as { data: { id: string }[] }).data.map(({ id }) => id)).toEqual(["a", "o"]);
    const hidden = await router.fetch(new Request("http://r/v1/models/m", { headers: { "x-api-key": "key-two" } }));
    expect(hidden.status).toBe(404);
  });
});

describe("log: prompts are never in it unless asked for, keys and queries never", () => {
  test.each([false, true])("log.prompts: %p", async (prompts) => {
    const lines: string[] = [];
    const transport = new HandTransport();
    const clock = new ManualClock();
    const worker = (name: string) => ({ name, url: `http://${name}:1`, apiKeyEnv: "WORKER" });
    const router = createRouter({
      config: {
        models: [
          {
            id: "m",
            pools: [{ ...POOL, prefill: [{ ...worker("p1"), bootstrapPort: 8998 }], decode: [worker("d1")] }],
          },
        ],
        auth: { clientKeys: [{ name: "team", keyEnv: "TEAM" }] },
        retries: { maxRetries: 0 },
        log: { level: "debug", prompts },
      },
      env: { WORKER: "SECRET2", TEAM: "SECRET3" },
      transport,
      clock,
      sink: (line) => lines.push(line),
    });
    router.tendsWithRequests = false;
    const bodies: string[] = [];
    for (const how of ["refuse", "reset", "status", "frame", "good"] as const) {
      transport.requests.length = 0;
      const request = new Request("http://r/v1/chat/completions?api_key=SECRET4", {
        method: "POST",
        headers: { ...JSON_TYPE, authorization: "Bearer SECRET3" },
        body: '{"model":"m","stream":true,"messages":[{"role":"user","content":"SECRET5"}]}',
      });
      const response = Promise.resolve(router.fetch(request));
      await settled();
      const [prefill, decode] = transport.requests;
      if (how === "refuse" || how === "reset") decode![how]();
      else if (how === "status")
        decode!.json({ error: { message: "headers: SECRET2 SECRET3 http://u:SECRET1@d1:1/" } }, 500);
      else {
        prefill!.json(PREFILLED);
        decode!.head().push(say("a"));
        if (how === "frame") decode!.push('data: {"error":{"message":"Bearer SECRET2 SECRET3"}}\n\n').end();
        else decode!.push(finish(), DONE).end();
      }
      bodies.push(await textOf(response));
      await settled();
    }
    const seen = lines.join("\n");
    const all = seen + bodies.join("\n") + router.telemetry.metrics.render();
    expect(lines.length).toBeGreaterThanOrEqual(5);
    for (const secret of ["SECRET2", "SECRET3", "SECRET4"])
      expect([secret, all.includes(secret)]).toEqual([secret, false]);
    expect(seen.includes("SECRET1")).toBe(false);
    expect(seen.includes("SECRET5")).toBe(prompts);
  });
});

describe("dpSize: the room chooses the prefill's data-parallel rank", () => {
  test("all ranks get their share", async () => {
    const pool = one({
      prefill: [{ name: "p1", url: "http://p1:1", dpSize: 4, bootstrapPort: 9001, bootstrapHost: "kv-1" }],
    });
    const { router, transport } = handRouter(pool);
    for (let n = 0; n < 200; n++) void post(router, "chat", requestBody("chat", true));
    await settled();
    const ranks = [0, 0, 0, 0];
    for (const { body } of transport.requests.filter(({ url }) => url.startsWith("http://p1"))) {
      ranks[Number(BigInt(/"bootstrap_room":\s*(\d+)/.exec(body)![1]!) % 4n)]!++;
      expect(body).toMatch(/"bootstrap_host":"kv-1","bootstrap_port":9001/);
    }
    for (const count of ranks) expect(count).toBeGreaterThan(20);
  });
});

describe("a pool is one KV domain", () => {
  test("whatever fails, the two legs of an attempt and a hand-off that is used again stay in one pool", async () => {
    for (const engine of ["sglang", "vllm", "trtllm"]) {
      const names = (kind: string, pool: string) =>
        [1, 2].map((n) => ({ name: `${kind}${pool}${n}`, url: `http://${kind}${pool}${n}:1` }));
      const pools = ["a", "b"].map((pool) => ({
        name: pool,
        engine,
        prefill: names("p", pool),
        decode: names("d", pool),
      }));
      const lab = handRouter(
        {},
        { models: [{ id: "m", pools }], retries: { maxRetries: 4, budget: 0 }, breaker: { enabled: false } },
      );
      let turn = 0;
      const answer = {
        sglang: JSON.stringify(PREFILLED),
        vllm: nixlAnswer(),
        trtllm:
          '{"prompt_token_ids":[1],"choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}]}',
      }[engine]!;
      lab.transport.onRequest = (request) => {
        turn++;
        const prefill = new URL(request.url).hostname.startsWith("p");
        if (turn % 5 === 1) request.refuse();
        else if (turn % 7 === 2) request.reset();
        else if (turn % 11 === 3) request.json({ error: { message: "x" } }, 503);
        else if (prefill) request.whole(answer);
        else if (turn % 3 === 0) request.refuse();
        else request.json({ choices: [] });
      };
      let good = 0;
      for (let n = 0; n < 60; n++) {
        const response = post(lab.router, "chat", requestBody("chat", false));
        await lab.clock.advance(3_000);
        if ((await response).status === 200) good++;
      }
      expect(good).toBeGreaterThan(30);
      const poolOf = new Map<string, string>();
      let lastPrefill = "";
      for (const { url, headers } of lab.transport.requests) {
        const { hostname } = new URL(url);
        const pool = hostname[1]!;
        const id = headers["x-request-id"]!;
        expect([id, poolOf.get(id) ?? pool]).toEqual([id, pool]);
        poolOf.set(id, pool);
        if (hostname.startsWith("p")) lastPrefill = pool;
        else if (engine !== "sglang") expect(pool).toBe(lastPrefill);
      }
      expect(new Set(poolOf.values())).toEqual(new Set(["a", "b"]));
    }
  });
});
