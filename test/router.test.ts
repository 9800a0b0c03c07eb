import { describe, expect, test } from "bun:test";
import { errorOf, handRouter, PREFILLED, settled, textOf } from "./attempt/hand-made.ts";
import { DONE, finish, ROLE, say } from "./relay/hand-made.ts";

const WORKERS = [{ name: "w1", url: "http://w1:1" }];
const ANSWER = [ROLE, say("hi"), finish(), DONE];

describe("the way through a pool", () => {
  test("the answer says which way it came, by names, never by addresses", async () => {
    const { at, ask } = handRouter();
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1")
      .head({ "x-engine-internal": "10.0.0.1", "x-ratelimit-limit": "9" })
      .push(...ANSWER)
      .end();
    const { headers } = await response;
    expect(
      Object.fromEntries(["path", "pool", "prefill", "decode"].map((key) => [key, headers.get(`x-router-${key}`)])),
    ).toEqual({
      path: "disaggregated",
      pool: "p",
      prefill: "p1",
      decode: "d1",
    });
    expect(headers.get("x-ratelimit-limit")).toBe("9");
    expect([...headers].join()).not.toMatch(/10\.0\.0\.1|:1\//);
  });

  test("short prompts skip the prefill leg where a pool has aggregated workers", async () => {
    const { ask, sent } = handRouter(
      { engine: "sglang", workers: WORKERS },
      { disaggregation: { minPromptTokens: 50 } },
    );
    ask();
    await settled();
    expect(sent()).toEqual(["w1"]);
    ask({ messages: [{ role: "user", content: "long ".repeat(100) }] });
    await settled();
    expect(sent().slice(1)).toEqual(["p1", "d1"]);
  });

  test("no usable prefill worker: 503 with Retry-After, and decode is not asked to do it alone", async () => {
    const { ask, sent, worker, clock } = handRouter({ engine: "vllm" }, { breaker: { failures: 1 } });
    for (const name of ["p1", "p2"]) worker(name).failed(clock.now());
    const response = await ask().response;
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).not.toBeNull();
    expect(response.headers.get("x-router-error-code")).toBe("no_prefill_workers");
    expect(sent()).toEqual([]);
  });

  test("onNoPrefill decode-only: decode computes the prompt itself, with the body as the client sent it", async () => {
    const { ask, sent, worker, clock, at } = handRouter(
      { engine: "vllm" },
      { breaker: { failures: 1 }, disaggregation: { onNoPrefill: "decode-only" } },
    );
    for (const name of ["p1", "p2"]) worker(name).failed(clock.now());
    const { response } = ask();
    await settled();
    expect(sent()).toEqual(["d1"]);
    expect(at("d1").body).toBe('{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}');
    at("d1")
      .head()
      .push(...ANSWER)
      .end();
    expect((await response).headers.get("x-router-path")).toBe("decode-only");
    expect(await textOf(response)).toBe(ANSWER.join(""));
  });

  test("an API the engine cannot split goes to an aggregated worker, else it is 400 and says why", async () => {
    const body = '{"model":"m","input":"hi"}';
    const none = handRouter({ engine: "trtllm" });
    expect(await errorOf(none.ask({}, { path: "/v1/responses", body }).response)).toMatchObject({
      status: 400,
      router: "invalid_request",
      error: { param: "endpoint" },
    });
    expect(none.sent()).toEqual([]);
    const some = handRouter({ engine: "trtllm", workers: WORKERS });
    some.ask({}, { path: "/v1/responses", body });
    await settled();
    expect(some.sent()).toEqual(["w1"]);
  });

  test("decode's place is taken before prefill is sent, so that a finished hand-off never waits for one", async () => {
    const { ask, worker } = handRouter({ engine: "vllm" });
    ask();
    await settled();
    expect(worker("d1").load.requests).toBe(1);
  });
});

describe("models", () => {
  const named = {
    models: [
      {
        id: "m",
        aliases: ["gpt-x"],
        adapters: ["my-lora"],
        pools: [
          {
            name: "p",
            engine: "sglang",
            prefill: [{ name: "p1", url: "http://p1:1" }],
            decode: [{ name: "d1", url: "http://d1:1" }],
          },
        ],
      },
    ],
  };

  test("an alias goes to the engines as the model's id and comes back as the client's name, in every event", async () => {
    const { at, ask } = handRouter({}, named);
    const { response } = ask({ model: "gpt-x" });
    await settled();
    expect(JSON.parse(at("p1").body).model).toBe("m");
    expect(JSON.parse(at("d1").body).model).toBe("m");
    at("p1").json(PREFILLED);
    const chunks = ANSWER.map((one) => one.replace('"id":"c1"', '"id":"c1","model":"m"'));
    at("d1")
      .head()
      .push(...chunks)
      .end();
    const text = await textOf(response);
    expect(text).toBe(chunks.join("").replaceAll('"model":"m"', '"model":"gpt-x"'));
  });

  test("an adapter goes as it is; an unknown name is 404 and reaches nobody", async () => {
    const { at, ask, sent } = handRouter({}, named);
    ask({ model: "my-lora" });
    await settled();
    expect(JSON.parse(at("d1").body).model).toBe("my-lora");
    expect(await errorOf(ask({ model: "other" }).response)).toMatchObject({
      status: 404,
      router: "model_not_found",
      error: { param: "model" },
    });
    expect(sent()).toEqual(["p1", "d1"]);
  });
});

describe("shutdown", () => {
  test("lets nobody in, is not ready, waits for running streams", async () => {
    const { router, ask, at, clock } = handRouter();
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head().push(say("one"));
    const text = textOf(response);
    await settled();
    const down = router.shutdown(10_000);
    const refused = await ask().response;
    expect({ status: refused.status, code: refused.headers.get("x-router-error-code") }).toEqual({
      status: 503,
      code: "shutting_down",
    });
    expect((await router.fetch(new Request("http://router/ready"))).status).toBe(503);
    at("d1").push(finish(), DONE).end();
    expect(await text).toBe(say("one") + finish() + DONE);
    await clock.advance(100);
    await down;
  });

  test("a stream that outlives it ends with a frame, its end mark, and a clean end; no worker is blamed", async () => {
    const { router, ask, at, clock, blamed, load } = handRouter();
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head().push(say("one"));
    const text = textOf(response);
    await settled();
    const down = router.shutdown(500);
    await clock.advance(600);
    expect(await text).toMatch(/"code":"shutting_down".*\n\ndata: \[DONE\]\n\n$/s);
    await clock.advance(1_000);
    await down;
    expect({ blamed: blamed("p1") + blamed("d1"), load: load(), active: router.active() }).toEqual({
      blamed: 0,
      load: 0,
      active: 0,
    });
  });

  test("a request that has no answer yet gets a real status", async () => {
    const { router, ask, clock, blamed } = handRouter({ engine: "vllm" });
    const { response } = ask();
    await settled();
    void router.shutdown(0);
    await clock.advance(50);
    expect(await errorOf(response)).toMatchObject({ status: 503, router: "shutting_down" });
    expect(blamed("p1")).toBe(0);
  });
});
