import { describe, expect, test } from "bun:test";
import { createRouter } from "../../src/create-router.ts";
import { HandTransport } from "../legs/hand-made.ts";
import { ManualClock } from "../manual-clock.ts";
import { chunk, DONE, finish, ROLE, say } from "../relay/hand-made.ts";
import { errorOf, handRouter, KV, nixlAnswer, PREFILLED, settled, textOf } from "./hand-made.ts";

const ANSWER = [ROLE, say("hi"), finish(), DONE];

test("the status of decode's error is not kept back for a body that does not end", async () => {
  const { at, ask, clock, blamed } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
  const { response } = ask();
  await settled();
  at("d1")
    .head({ "content-length": "100", "content-type": "application/json" }, 503)
    .push('{"error":{"message":"full"}}');
  await settled();
  await clock.advance(2_000);
  expect(await errorOf(response)).toMatchObject({ status: 503, router: "decode_failed", error: { message: "full" } });
  expect([blamed("p1"), blamed("d1")]).toEqual([0, 0]);
});

for (const engine of ["sglang", "vllm"]) {
  test(`nor is that of prefill's error, and one whose body is cut is not lost (${engine})`, async () => {
    for (const ending of ["hangs", "is cut"]) {
      const { at, ask, clock, sent, blamed, load } = handRouter({ engine });
      const { response } = ask();
      await settled();
      const prefill = at("p1").head({ "content-length": "100", "content-type": "application/json" }, 400);
      prefill.push(': wait\n\n{"message":"too long"}');
      if (ending === "is cut") prefill.cut();
      else await clock.advance(2_000);
      expect(await errorOf(response)).toMatchObject({
        status: 400,
        router: "prefill_failed",
        error: { message: "too long" },
      });
      await clock.advance(2_000);
      expect([sent().filter((name) => name.startsWith("p")), blamed("p1"), load()]).toEqual([["p1"], 0, 0]);
    }
  });
}

test("a limit that falls into the wait for an error's words does not take its status away", async () => {
  const timeouts = { prefillMs: 1_000, firstTokenMs: 1_000, totalMs: 1_000 };
  for (const leg of ["p1", "d1"]) {
    for (const stream of [true, false]) {
      const { at, ask, clock, blamed } = handRouter({ engine: "sglang" }, { timeouts, retries: { maxRetries: 0 } });
      const { response } = ask({ stream });
      await settled();
      at(leg).head({ "content-length": "100", "content-type": "application/json" }, 400);
      await clock.advance(3_000);
      expect((await response).status).toBe(400);
      expect([blamed("p1"), blamed("d1")]).toEqual([0, 0]);
    }
  }
});

test("a prefill worker that cannot be reached is blamed where only a bare connection tells", async () => {
  const { ask, clock, transport, blamed } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
  transport.connects = async (url) => !url.includes("p1");
  const { response } = ask();
  await clock.advance(2_500);
  expect(await errorOf(response)).toMatchObject({ router: "prefill_unreachable" });
  expect([blamed("p1"), blamed("d1")]).toEqual([1, 0]);
});

describe("both legs at once (SGLang)", () => {
  test("both are sent in the same tick, with the same room and request id", async () => {
    const { transport, at, ask, sent } = handRouter();
    ask();
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    const [prefill, decode] = transport.requests.map(({ body }) => body);
    const room = /"bootstrap_room":\s*(\d+)/;
    expect(room.exec(prefill!)![1]).toBe(room.exec(decode!)![1]!);
    expect(at("p1").headers["x-request-id"]).toBe(at("d1").headers["x-request-id"]!);
    expect(at("p1").headers["x-request-id"]).toMatch(/^[0-9a-f]{32}$/);
  });

  test("a good answer leaves nothing behind: no load, no active request, no timer", async () => {
    const { router, at, ask, load, clock, blamed } = handRouter();
    const { response } = ask();
    await settled();
    expect(load()).toBeGreaterThan(0);
    at("d1")
      .head()
      .push(...ANSWER)
      .end();
    at("p1").json(PREFILLED);
    expect(await textOf(response)).toBe(ANSWER.join(""));
    await settled();
    expect({ load: load(), active: router.active(), timers: clock.timers.size }).toEqual({
      load: 0,
      active: 0,
      timers: 0,
    });
    expect(blamed("p1") + blamed("d1")).toBe(0);
  });

  test("prefill's own error is the status, at once; decode is closed and not blamed", async () => {
    const { at, ask, load, blamed } = handRouter();
    const { response } = ask();
    await settled();
    at("d1").head().push(ROLE);
    at("p1").json({ object: "error", message: "prompt too long", type: "BadRequestError", code: 400 }, 400);
    expect(await errorOf(response)).toMatchObject({
      status: 400,
      router: "prefill_failed",
      error: { message: "prompt too long", type: "BadRequestError", code: 400, stage: "prefill" },
    });
    expect(at("d1").closed).toBe(true);
    await settled();
    expect(load()).toBe(0);
    expect(blamed("d1") + blamed("p1")).toBe(0);
  });

  test("decode's failure does not wait for prefill, and closes it in the same tick", async () => {
    const { at, ask, blamed } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("d1").json({ object: "error", message: "out of KV", code: 503 }, 503, { "retry-after": "7" });
    const got = await response;
    expect(got.status).toBe(503);
    expect(got.headers.get("retry-after")).toBe("7");
    expect(at("p1").closed).toBe(true);
    expect(blamed("d1") + blamed("p1")).toBe(0);
  });

  test("a late prefill failure is one frame; decode is closed in the same tick, and prefill is blamed alone", async () => {
    const { at, ask, blamed, load } = handRouter();
    const { response } = ask();
    await settled();
    at("d1").head().push(say("one"));
    const text = textOf(response);
    await settled();
    at("p1").json({ error: { message: "KV transfer failed", code: 500 } }, 500);
    expect(await text).toContain('"message":"KV transfer failed"');
    expect(at("d1").closed).toBe(true);
    expect({ p1: blamed("p1"), d1: blamed("d1"), load: load() }).toEqual({ p1: 1, d1: 0, load: 0 });
  });

  test("a tail may outlive the response by tailMs; cutting it then is nobody's fault", async () => {
    const { at, ask, clock, blamed, worker } = handRouter(
      { engine: "sglang" },
      { timeouts: { settleMs: 100, tailMs: 5_000 } },
    );
    const { response } = ask();
    await settled();
    at("d1")
      .head()
      .push(...ANSWER)
      .end();
    const text = textOf(response);
    await clock.advance(100);
    expect(await text).toBe(ANSWER.join(""));
    await clock.advance(4_999);
    expect(at("p1").closed).toBe(false);
    expect(worker("p1").load.requests).toBe(1);
    await clock.advance(1);
    expect(at("p1").closed).toBe(true);
    expect(worker("p1").load.requests).toBe(0);
    expect(blamed("p1")).toBe(0);
  });
});

describe("a client that leaves (SGLang)", () => {
  test("anytime: both legs are closed at once, nobody is blamed, nothing stays counted", async () => {
    for (const when of ["before headers", "while streaming"] as const) {
      const { router, at, ask, load, blamed } = handRouter();
      const { response, leave } = ask();
      await settled();
      if (when === "while streaming") {
        at("d1").head().push(say("one"));
        const reader = (await response).body!.getReader();
        await reader.read();
        await reader.cancel();
      } else leave();
      await settled();
      expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
      expect({ load: load(), active: router.active(), blamed: blamed("p1") + blamed("d1") }).toEqual({
        load: 0,
        active: 0,
        blamed: 0,
      });
    }
  });

  test("deferred: both stay open until decode's first event, and the load is counted as long", async () => {
    const { router, at, ask, load } = handRouter({ engine: "sglang", cancel: "deferred" });
    const { leave } = ask();
    await settled();
    leave();
    await settled();
    expect([at("p1").closed, at("d1").closed]).toEqual([false, false]);
    expect(router.active()).toBe(0);
    expect(load()).toBeGreaterThan(0);
    at("d1").head().push(ROLE);
    await settled();
    expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
    expect(load()).toBe(0);
  });

  test("deferred, buffered: until prefill's end", async () => {
    const { at, ask, load } = handRouter({ engine: "sglang", cancel: "deferred" });
    const { leave } = ask({ stream: false });
    await settled();
    leave();
    at("p1").json(PREFILLED);
    await settled();
    expect(at("d1").closed).toBe(true);
    expect(load()).toBe(0);
  });

  test("deferred, buffered, vLLM push: two seconds longer, since its prefill ends before decode has the blocks", async () => {
    const { at, ask, load, clock } = handRouter({
      engine: "vllm",
      connector: "nixl-push",
      cancel: "deferred",
      prefill: [{ name: "p1", url: "http://p1:1", engineId: "e", kvHost: "h" }],
    });
    const { leave } = ask({ stream: false });
    await settled();
    leave();
    await settled();
    at("p1").whole('{"choices":[{"finish_reason":"length"}],"kv_transfer_params":null}');
    await settled();
    await clock.advance(1_999);
    await settled();
    expect(at("d1").closed).toBe(false);
    await clock.advance(1);
    await settled();
    expect(at("d1").closed).toBe(true);
    expect(load()).toBe(0);
  });

  test("deferred: at most tailMs", async () => {
    const { at, ask, clock, load } = handRouter(
      { engine: "sglang", cancel: "deferred" },
      { timeouts: { tailMs: 3_000 } },
    );
    const { leave } = ask();
    await settled();
    leave();
    await clock.advance(2_999);
    expect(at("d1").closed).toBe(false);
    await clock.advance(1);
    expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
    expect(load()).toBe(0);
  });

  test.each([
    ["refused the connection", "refuse"],
    ["reset it", "reset"],
  ] as const)("deferred: a decode that %s does not abort prefill's transfer", async (_, how) => {
    const { at, ask, clock } = handRouter(
      { engine: "sglang", cancel: "deferred" },
      { timeouts: { tailMs: 3_000 }, retries: { maxRetries: 0 } },
    );
    const { response } = ask();
    await settled();
    at("d1")[how]();
    expect((await response).status).toBe(502);
    await clock.advance(2_999);
    expect(at("p1").closed).toBe(false);
    await clock.advance(1);
    expect(at("p1").closed).toBe(true);
  });

  test("deferred: the error goes out at once all the same", async () => {
    const { at, ask } = handRouter({ engine: "sglang", cancel: "deferred" });
    const { response } = ask();
    await settled();
    at("p1").json({ error: { message: "bad" } }, 400);
    expect((await response).status).toBe(400);
    expect(at("d1").closed).toBe(false);
  });
});

describe("prefill first (vLLM, NIXL)", () => {
  test("decode gets the client's body and the hand-off as raw text, after prefill's answer", async () => {
    const { at, ask, sent } = handRouter({ engine: "vllm" });
    const { response } = ask({ max_tokens: 50 });
    await settled();
    expect(sent()).toEqual(["p1"]);
    at("p1").whole(nixlAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    expect(at("d1").body).toContain(`"kv_transfer_params":${KV}`);
    expect(JSON.parse(at("d1").body)).toMatchObject({ max_tokens: 50, stream: true });
    at("d1")
      .head()
      .push(...ANSWER)
      .end();
    expect(await textOf(response)).toBe(ANSWER.join(""));
  });

  test("a hand-off decode could not use never reaches it", async () => {
    const { at, ask, sent } = handRouter({ engine: "vllm" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer('{"do_remote_prefill":true,"remote_block_ids":[[]]}'));
    expect(await errorOf(response)).toMatchObject({
      status: 502,
      router: "invalid_handoff",
      error: { stage: "handoff" },
    });
    expect(sent()).toEqual(["p1"]);
  });

  test("anytime: who leaves while prefill runs closes it once its last step would be over, and decode is never called", async () => {
    const { at, ask, sent, load, clock } = handRouter({ engine: "vllm" });
    const { leave } = ask();
    await settled();
    leave();
    clock.advance(49);
    await settled();
    expect(at("p1").closed).toBe(false);
    clock.advance(1);
    await settled();
    expect(at("p1").closed).toBe(true);
    expect(sent()).toEqual(["p1"]);
    expect(load()).toBe(0);
  });

  test("anytime: an answer of that last step is released: the engine would keep its blocks for 30 s", async () => {
    const { at, ask, sent, load, clock, counter } = handRouter({ engine: "vllm" });
    const { leave } = ask();
    await settled();
    leave();
    clock.advance(40);
    at("p1").whole(nixlAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    expect(JSON.parse(at("d1").body)).toMatchObject({ max_tokens: 1, stream: false });
    expect(counter("handoffs_released_total")).toBe(1);
    at("d1").whole("{}");
    await settled();
    expect(load()).toBe(0);
  });

  test("tailMs 0: prefill is closed with the response", async () => {
    const { at, ask, sent } = handRouter({ engine: "vllm" }, { timeouts: { tailMs: 0 } });
    const { leave } = ask();
    await settled();
    leave();
    await settled();
    expect(at("p1").closed).toBe(true);
    expect(sent()).toEqual(["p1"]);
  });

  test("anytime: a hand-off that crosses the hang-up is released, once", async () => {
    const { at, ask, sent, load, counter } = handRouter({ engine: "vllm" });
    const { leave } = ask({ max_tokens: 50, min_tokens: 5 });
    await settled();
    at("p1").whole(nixlAnswer());
    // In the tick of its answer: the answer is in, the walk does not know yet.
    await Promise.resolve();
    leave();
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    const release = JSON.parse(at("d1").body);
    expect(release).toMatchObject({ max_tokens: 1, stream: false, messages: [{ role: "user", content: "hi" }] });
    expect(release).not.toHaveProperty("min_tokens");
    expect(at("d1").body).toContain(KV);
    expect(counter("handoffs_released_total")).toBe(1);
    at("d1").json({});
    await settled();
    expect(load()).toBe(0);
  });

  test("deferred: prefill runs on, and its hand-off is released; closed after two seconds at the latest", async () => {
    const { at, ask, sent, load, clock } = handRouter({ engine: "vllm", cancel: "deferred" });
    const { leave } = ask();
    await settled();
    leave();
    await clock.advance(1_000);
    expect(at("p1").closed).toBe(false);
    at("p1").whole(nixlAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    await clock.advance(1_999);
    expect(at("d1").closed).toBe(false);
    await clock.advance(1);
    expect(at("d1").closed).toBe(true);
    expect(load()).toBe(0);
  });

  test("a decode that had been sent is closed after its first event, after two seconds at the latest", async () => {
    const first = handRouter({ engine: "vllm" });
    const asked = first.ask();
    await settled();
    first.at("p1").whole(nixlAnswer());
    await settled();
    asked.leave();
    await first.clock.advance(100);
    expect(first.at("d1").closed).toBe(false);
    first.at("d1").head().push(ROLE);
    await settled();
    expect(first.at("d1").closed).toBe(true);
    expect(first.load()).toBe(0);

    const silent = handRouter({ engine: "vllm" });
    const left = silent.ask();
    await settled();
    silent.at("p1").whole(nixlAnswer());
    await settled();
    left.leave();
    await silent.clock.advance(2_000);
    expect(silent.at("d1").closed).toBe(true);
    expect(silent.load()).toBe(0);
  });
});

describe("prefill that has finished the answer", () => {
  test("is the answer: decode is not called, its place is given back, a stream is a stream", async () => {
    const { router, at, ask, sent, load } = handRouter({ engine: "vllm" });
    const { response } = ask();
    await settled();
    at("p1").json({
      ...PREFILLED,
      choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }],
    });
    const got = await response;
    expect(got.headers.get("content-type")).toContain("text/event-stream");
    expect(got.headers.get("x-router-path")).toBe("prefill-only");
    const text = await got.text();
    expect(text).toContain('"content":"yes"');
    expect(text).toEndWith(DONE);
    expect(sent()).toEqual(["p1"]);
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
  });

  test("a client that leaves without reading such a stream is forgotten too", async () => {
    const { router, at, ask, load } = handRouter({ engine: "vllm" });
    const { response } = ask();
    await settled();
    at("p1").json({ ...PREFILLED, choices: [{ index: 0, message: { content: "yes" }, finish_reason: "stop" }] });
    await (await response).body!.cancel();
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
  });

  test("an abort inside a 200 is prefill_failed", async () => {
    const { at, ask } = handRouter({ engine: "vllm" }, { retries: { maxRetries: 0 } });
    const { response } = ask();
    await settled();
    at("p1").json({ ...PREFILLED, choices: [{ index: 0, message: { content: "" }, finish_reason: "abort" }] });
    expect(await errorOf(response)).toMatchObject({ status: 502, router: "prefill_failed" });
  });
});

describe("limits", () => {
  test.each(["sglang", "vllm"])("prefillMs (%s): 504, everything is closed and given back", async (engine) => {
    const { at, ask, clock, blamed, load, transport } = handRouter({ engine }, { timeouts: { prefillMs: 2_000 } });
    const { response } = ask();
    await clock.advance(2_000);
    expect(await errorOf(response)).toMatchObject({
      status: 504,
      router: "prefill_timeout",
      error: { stage: "prefill" },
    });
    expect(transport.requests.map(({ closed }) => closed)).not.toContain(false);
    expect(load()).toBe(0);
    expect(at("p1").closed).toBe(true);
    expect(blamed("p1")).toBe(1);
    // Where decode has not been called it cannot be the one that hangs.
    if (engine === "vllm") expect(blamed("d1")).toBe(0);
  });

  test("prefillMs that runs out while decode streams is a frame that says so", async () => {
    const { at, ask, clock } = handRouter({ engine: "sglang" }, { timeouts: { prefillMs: 2_000 } });
    const { response } = ask();
    await settled();
    at("d1").head().push(say("one"));
    const text = textOf(response);
    await clock.advance(2_000);
    expect(await text).toContain('"code":"prefill_timeout"');
  });

  test("firstTokenMs: where both legs run at once it counts from prefill's success", async () => {
    const { at, ask, clock, blamed } = handRouter(
      { engine: "sglang" },
      { timeouts: { firstTokenMs: 1_000, prefillMs: 60_000 } },
    );
    const { response } = ask();
    await settled();
    at("d1").head().push(ROLE);
    await clock.advance(10_000);
    at("p1").json(PREFILLED);
    await clock.advance(999);
    expect(at("d1").closed).toBe(false);
    await clock.advance(1);
    expect(await errorOf(response)).toMatchObject({
      status: 504,
      router: "decode_timeout",
      error: { stage: "decode" },
    });
    expect(at("d1").closed).toBe(true);
    expect({ p1: blamed("p1"), d1: blamed("d1") }).toEqual({ p1: 0, d1: 1 });
  });

  test("totalMs: buffered answers only, dispatch to last byte", async () => {
    const { at, ask, clock } = handRouter({ engine: "sglang" }, { timeouts: { totalMs: 3_000 } });
    const { response } = ask({ stream: false });
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head({ "content-type": "application/json" }).push('{"choices":[');
    await clock.advance(3_000);
    expect(await errorOf(response)).toMatchObject({ status: 504, router: "decode_timeout" });
  });
});

describe("buffered answers", () => {
  const whole = JSON.stringify({ id: "c", choices: [{ index: 0, message: { content: "hi" }, finish_reason: "stop" }] });

  test("wait for an unsettled tail, at most settleMs", async () => {
    const { at, ask, clock } = handRouter({ engine: "sglang" }, { timeouts: { settleMs: 200 } });
    const { response } = ask({ stream: false });
    await settled();
    at("d1").whole(whole);
    let answered = false;
    void response.then(() => {
      answered = true;
    });
    await clock.advance(199);
    expect(answered).toBe(false);
    await clock.advance(1);
    expect(await textOf(response)).toBe(whole);
  });

  test("are a real error when the tail fails in that time", async () => {
    const { at, ask } = handRouter();
    const { response } = ask({ stream: false });
    await settled();
    at("d1").whole(whole);
    await settled();
    at("p1").json({ error: { message: "KV transfer failed" } }, 500);
    expect(await errorOf(response)).toMatchObject({ status: 500, router: "prefill_failed" });
  });

  test("an abort, an error object, an event stream or half a JSON inside a 200 are failures", async () => {
    const bad = [
      JSON.stringify({ choices: [{ index: 0, message: { content: "" }, finish_reason: "abort" }] }),
      JSON.stringify({ error: { message: "boom" } }),
      chunk({ content: "x" }) + DONE,
      '{"choices":[{"message"',
    ];
    for (const text of bad) {
      const { at, ask } = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
      const { response } = ask({ stream: false });
      await settled();
      at("p1").json(PREFILLED);
      at("d1").whole(text);
      expect(await errorOf(response)).toMatchObject({ status: 502, router: "decode_failed" });
    }
  });
});

describe("a hand-off is never left unread", () => {
  const decodes = (sent: readonly string[]) => sent.filter((name) => name.startsWith("d"));

  test("decode refuses when the client has left already: another one fetches it", async () => {
    const { at, ask, sent, clock, load } = handRouter({ engine: "vllm" });
    const { leave } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    leave();
    await settled();
    at("d1").refuse();
    await clock.advance(5_000);
    expect(decodes(sent())).toEqual(["d1", "d2"]);
    expect(at("d2").body).toContain('"stream":false');
    expect([load(), clock.timers.size]).toEqual([0, 0]);
  });

  test("the client leaves in any tick between prefill's answer and decode's dispatch", async () => {
    for (let ticks = 0; ticks < 30; ticks++) {
      const { at, ask, sent, clock, load } = handRouter({ engine: "vllm" });
      const { leave } = ask();
      await settled();
      at("p1").whole(nixlAnswer());
      for (let tick = 0; tick < ticks; tick++) await null;
      leave();
      await clock.advance(5_000);
      expect([ticks, decodes(sent())]).toEqual([ticks, ["d1"]]);
      expect([load(), clock.timers.size]).toEqual([0, 0]);
    }
  });

  test("with several pools it is for another decode of its own pool, not for nobody", async () => {
    const pool = (name: string) => ({
      name,
      engine: "vllm",
      prefill: [{ name: `p${name}`, url: `http://p${name}:1` }],
      decode: [1, 2].map((n) => ({ name: `d${name}${n}`, url: `http://d${name}${n}:1` })),
    });
    const lab = handRouter({}, { models: [{ id: "m", pools: [pool("a"), pool("b")] }], retries: { backoffMs: 1 } });
    lab.transport.onRequest = (request) => {
      const host = new URL(request.url).hostname;
      if (host.startsWith("p")) request.whole(nixlAnswer());
      else if (host === "da1") request.refuse();
      else
        request
          .head()
          .push(...ANSWER)
          .end();
    };
    const { response } = lab.ask();
    await lab.clock.advance(5_000);
    expect((await response).status).toBe(200);
    expect(lab.sent()).toEqual(["pa", "da1", "da2"]);
  });

  test("but where all of them refuse, the request goes another way: to another pool, or an aggregated worker", async () => {
    const a = { name: "a", engine: "vllm", prefill: ["http://pa:1"], decode: ["http://da:1"] };
    const b = { name: "b", engine: "vllm", prefill: ["http://pb:1"], decode: ["http://db:1"] };
    for (const [pools, sent] of [
      [
        [a, b],
        ["pa", "da", "pb", "db"],
      ],
      [[{ ...a, workers: ["http://w:1"] }], ["pa", "da", "w"]],
      [[a], ["pa", "da", "da", "da"]],
    ] as const) {
      const lab = handRouter({}, { models: [{ id: "m", pools }], retries: { maxRetries: 2, backoffMs: 1 } });
      lab.transport.onRequest = (request) => {
        const host = new URL(request.url).hostname;
        if (host.startsWith("p")) request.whole(nixlAnswer());
        else if (host === "da") request.refuse();
        else
          request
            .head()
            .push(...ANSWER)
            .end();
      };
      const { response } = lab.ask();
      await lab.clock.advance(5_000);
      expect((await response).status).toBe(pools.length === 1 && !("workers" in pools[0]) ? 502 : 200);
      expect(lab.sent()).toEqual([...sent]);
    }
  });

  test("and it is released once, whether decode's refusal or the client's leaving comes first", async () => {
    for (let ticks = 0; ticks < 12; ticks++) {
      const { at, ask, sent, clock } = handRouter({ engine: "vllm" }, { retries: { maxRetries: 0 } });
      const { leave } = ask();
      await settled();
      at("p1").whole(nixlAnswer());
      await settled();
      at("d1").refuse();
      for (let tick = 0; tick < ticks; tick++) await null;
      leave();
      await clock.advance(5_000);
      expect([ticks, decodes(sent())]).toEqual([ticks, ["d1", "d2"]]);
    }
  });
});

test("a client that leaves, or asks for what cannot be, is no reason to forget Mooncake's engine id", async () => {
  for (const how of ["leaves", "is refused"]) {
    const { at, ask, worker } = handRouter({ engine: "vllm", connector: "mooncake" });
    for (const name of ["p1", "p2"]) worker(name).learn({ mooncake: [{ rank: 0, engineId: "e" }] });
    const { response, leave } = ask();
    await settled();
    if (how === "leaves") {
      at("d1")
        .head()
        .push(ROLE + say("a"));
      await (await response).body!.getReader().read();
      leave();
    } else at("p1").json({ error: { message: "no" } }, 400);
    await settled();
    expect(worker("p1").target.mooncake).toBeDefined();
  }
});

test("several answers end at shutdown also for a client that does not read, which may then leave", async () => {
  const lab = handRouter();
  const { response, leave } = lab.ask({ n: 2 });
  await settled();
  for (const name of ["p1", "p2"]) lab.at(name).json(PREFILLED);
  lab.at("d1").head().push(say("a"));
  lab.at("d2").head().push(say("b"));
  await settled();
  const got = await response;
  const down = lab.router.shutdown(0);
  await lab.clock.advance(10);
  expect([lab.router.active(), lab.router.admission.active]).toEqual([0, 0]);
  expect(await got.text()).toContain('"code":"shutting_down"');
  leave();
  await lab.clock.advance(60_000);
  await down;
});

test.each(["ended", "run"])(
  "a platform whose background throws (%s) does not keep its client waiting",
  async (what) => {
    let calls = 0;
    const throwing = () => {
      throw new Error("a platform's bug");
    };
    const background =
      what === "ended" ? { run: () => {}, ended: throwing } : { run: () => (++calls > 1 ? throwing() : undefined) };
    const prefill = [{ url: "http://p1:1", bootstrapPort: 8998 }];
    const pool = { name: "p", engine: "sglang", prefill, decode: ["http://d1:1"] };
    const transport = new HandTransport();
    const config = { models: [{ id: "m", pools: [pool] }], log: { level: "silent" } };
    const router = createRouter({ config, transport, clock: new ManualClock(), background });
    router.tendsWithRequests = false;
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }], stream: true });
    const init = { method: "POST", headers: { "content-type": "application/json" }, body };
    const response = Promise.resolve(router.fetch(new Request("http://r/v1/chat/completions", init)));
    await settled();
    const [prefillLeg, decodeLeg] = transport.requests;
    decodeLeg!.head().push(ROLE, say("hi"));
    await settled();
    const text = (await response).text();
    decodeLeg!.push(finish(), DONE).end();
    prefillLeg!.json(PREFILLED);
    expect(await text).toEndWith(DONE);
  },
);
