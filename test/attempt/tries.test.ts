import { describe, expect, test } from "bun:test";
import { DONE, event, finish, ROLE, say } from "../relay/hand-made.ts";
import { errorOf, type HandRouter, handRouter, nixlAnswer, PREFILLED, settled, textOf } from "./hand-made.ts";

const ANSWER = [ROLE, say("hi"), finish(), DONE];

/** What went wrong in the first attempt of an SGLang request, and where the second one went: "" = there was none. */
const table: [what: string, fail: (hand: HandRouter) => void, again: string, waits: boolean][] = [
  ["decode refused the connection", ({ at }) => at("d1").refuse(), "p2 d2", true],
  ["prefill refused the connection", ({ at }) => at("p1").refuse(), "p2 d2", true],
  ["decode reset before a byte (an idle connection was closed)", ({ at }) => at("d1").reset(), "p2 d2", false],
  ["prefill reset before a byte", ({ at }) => at("p1").reset(), "p2 d2", false],
  ["decode cut after a role chunk", ({ at }) => at("d1").head().push(ROLE).cut(), "p2 d2", true],
  ["decode is busy (503)", ({ at }) => at("d1").json({ error: { message: "full" } }, 503), "p2 d2", false],
  ["prefill is busy (503)", ({ at }) => at("p1").json({ error: { message: "full" } }, 503), "p2 d2", false],
  ["prefill says 502", ({ at }) => at("p1").json({ error: { message: "x" } }, 502), "p2 d2", false],
  [
    "decode says 500: perhaps a failed pull, so the same decode with a fresh prefill",
    ({ at }) => at("d1").json({ error: { message: "x" } }, 500),
    "p2 d1",
    false,
  ],
  ["decode says 429", ({ at }) => at("d1").json({ error: { message: "x" } }, 429), "", false],
  ["decode says 400", ({ at }) => at("d1").json({ error: { message: "x" } }, 400), "", false],
  ["prefill says 422", ({ at }) => at("p1").json({ error: { message: "x" } }, 422), "", false],
  ["prefill says 500", ({ at }) => at("p1").json({ error: { message: "x" } }, 500), "", false],
  [
    "prefill aborts inside a 200",
    ({ at }) => at("p1").json({ choices: [{ index: 0, finish_reason: "abort" }] }),
    "p2 d2",
    false,
  ],
];

describe("whether and where a failed attempt is made again", () => {
  test.each(table)("%s", async (_what, fail, again, waits) => {
    const hand = handRouter();
    const { response } = hand.ask();
    await settled();
    expect(hand.sent()).toEqual(["p1", "d1"]);
    fail(hand);
    await settled();
    if (waits) {
      // No retry storm: the workers have failed this request, so there is a pause before the next try.
      expect(hand.sent()).toHaveLength(2);
      await hand.clock.advance(1_000);
    }
    expect(hand.sent().slice(2).join(" ")).toBe(again);
    if (again === "") {
      expect((await response).ok).toBe(false);
      return;
    }
    const decode = hand.transport.requests.filter(({ url }) => url.includes("//d")).at(-1)!;
    const prefill = hand.transport.requests.filter(({ url }) => url.includes("//p")).at(-1)!;
    decode
      .head()
      .push(...ANSWER)
      .end();
    prefill.json(PREFILLED);
    expect(await textOf(response)).toBe(ANSWER.join(""));
    await settled();
    expect(hand.load()).toBe(0);
    expect(hand.counter("retries_total")).toBe(1);
  });

  test("every attempt has ids of its own", async () => {
    const { transport, at, ask } = handRouter();
    ask();
    await settled();
    at("d1").reset();
    await settled();
    const ids = transport.requests.map(({ headers }) => headers["x-request-id"]);
    const rooms = transport.requests.map(({ body }) => /"bootstrap_room":\s*(\d+)/.exec(body)![1]);
    expect([ids[0] === ids[1], ids[2] === ids[3], ids[0] === ids[2]]).toEqual([true, true, false]);
    expect([rooms[0] === rooms[1], rooms[2] === rooms[3], rooms[0] === rooms[2]]).toEqual([true, true, false]);
  });

  test("nothing is tried again once the status is committed", async () => {
    const { at, ask, sent } = handRouter();
    const { response } = ask();
    await settled();
    at("d1").head().push(say("one")).cut();
    expect(await textOf(response)).toContain('"code":"decode_failed"');
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("nor for a client that has left, nor when retries are off", async () => {
    const left = handRouter();
    const asked = left.ask();
    await settled();
    asked.leave();
    await left.clock.advance(5_000);
    expect(left.sent()).toEqual(["p1", "d1"]);

    const off = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    const { response } = off.ask();
    await settled();
    off.at("d1").reset();
    expect(await errorOf(response)).toMatchObject({ status: 502, router: "decode_unreachable" });
    expect(off.sent()).toEqual(["p1", "d1"]);
  });

  test("a client that leaves during the pause is not tried for", async () => {
    const { at, ask, sent, clock, load, router } = handRouter();
    const { leave } = ask();
    await settled();
    at("d1").refuse();
    await settled();
    leave();
    await clock.advance(5_000);
    expect(sent()).toEqual(["p1", "d1"]);
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
  });

  test("429 is tried elsewhere with on429", async () => {
    const { at, ask, sent } = handRouter({ engine: "sglang" }, { retries: { on429: true } });
    ask();
    await settled();
    at("d1").json({ error: { message: "x" } }, 429);
    await settled();
    expect(sent()).toEqual(["p1", "d1", "p2", "d2"]);
  });

  test("a busy worker's answer stands when there is no other worker", async () => {
    const { at, ask, sent } = handRouter({ engine: "sglang", decode: [{ name: "d1", url: "http://d1:1" }] });
    const { response } = ask();
    await settled();
    at("d1").json({ error: { message: "queue is full", type: "overloaded" } }, 503, { "retry-after": "4" });
    const got = await response;
    expect(got.status).toBe(503);
    expect(got.headers.get("retry-after")).toBe("4");
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("at most maxRetries, and no more after two workers of it have fallen", async () => {
    const busy = handRouter({
      engine: "sglang",
      decode: ["d1", "d2", "d3", "d4", "d5"].map((name) => ({ name, url: `http://${name}:1` })),
    });
    busy.transport.onRequest = (request) => {
      if (request.url.includes("//d")) request.json({ error: { message: "full" } }, 503);
    };
    expect((await busy.ask().response).status).toBe(503);
    expect(new Set(busy.sent().filter((name) => name.startsWith("d"))).size).toBe(3);

    const deadly = handRouter({
      engine: "sglang",
      decode: ["d1", "d2", "d3", "d4"].map((name) => ({ name, url: `http://${name}:1` })),
    });
    deadly.transport.onRequest = (request) => {
      if (request.url.includes("//d")) request.reset();
    };
    expect((await deadly.ask().response).status).toBe(502);
    expect(new Set(deadly.sent().filter((name) => name.startsWith("d"))).size).toBe(2);
  });

  test("timeouts are not tried again: the time is spent", async () => {
    const { ask, sent, clock } = handRouter({ engine: "sglang" }, { timeouts: { prefillMs: 100 } });
    const { response } = ask();
    await clock.advance(5_000);
    expect((await response).status).toBe(504);
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("the budget ends retries when everything fails", async () => {
    const { transport, ask, clock } = handRouter(
      { engine: "sglang" },
      { retries: { budget: 0.1, maxRetries: 1 }, breaker: { enabled: false } },
    );
    transport.onRequest = (request) => request.reset();
    for (let index = 0; index < 30; index++) expect((await ask().response).status).toBe(502);
    await clock.advance(0);
    // Two legs each; ten retries are always allowed, a tenth of thirty requests is less.
    expect(transport.requests).toHaveLength((30 + 10) * 2);
  });
});

describe("prefill first (vLLM, NIXL): a hand-off is good for one read", () => {
  async function handedOff() {
    const hand = handRouter({ engine: "vllm" });
    const asked = hand.ask();
    await settled();
    hand.at("p1").whole(nixlAnswer());
    await settled();
    expect(hand.sent()).toEqual(["p1", "d1"]);
    return { ...hand, asked };
  }

  test("decode refused, so nothing was read: the same hand-off goes to another decode", async () => {
    const hand = await handedOff();
    hand.at("d1").refuse();
    await hand.clock.advance(1_000);
    expect(hand.sent()).toEqual(["p1", "d1", "d2"]);
    expect(hand.at("d2").body).toBe(hand.at("d1").body);
    hand
      .at("d2")
      .head()
      .push(...ANSWER)
      .end();
    expect(await textOf(hand.asked.response)).toBe(ANSWER.join(""));
    await settled();
    expect(hand.load()).toBe(0);
  });

  test("unless it has grown too old meanwhile: then prefill is done anew, elsewhere, and nobody is blamed", async () => {
    const hand = await handedOff();
    hand.at("d1").refuse();
    hand.clock.time += 25_000;
    await hand.clock.advance(1_000);
    expect(hand.sent()).toEqual(["p1", "d1", "p2"]);
    expect(hand.blamed("p1")).toBe(0);
  });

  test.each(["reset", "cut"] as const)("decode %s, so it may have been read: prefill anew", async (how) => {
    const hand = await handedOff();
    if (how === "reset") hand.at("d1").reset();
    else hand.at("d1").head().push(ROLE).cut();
    await hand.clock.advance(1_000);
    expect(hand.sent().slice(2)).toEqual(["p2"]);
  });

  test("an unusable hand-off: prefill anew on another worker, decode is never asked with it", async () => {
    const hand = handRouter({ engine: "vllm" });
    hand.ask();
    await settled();
    hand.at("p1").whole(nixlAnswer("{}"));
    await settled();
    expect(hand.sent()).toEqual(["p1", "p2"]);
  });
});

describe("whose fault a decode 500 was", () => {
  const pull = event({ error: { message: "Internal server error", type: "InternalServerError", code: 500 } });

  async function failedPull() {
    const hand = handRouter({ engine: "vllm" });
    const asked = hand.ask();
    await settled();
    hand.at("p1").whole(nixlAnswer());
    await settled();
    hand.at("d1").head().push(ROLE, pull);
    await settled();
    // The same decode once more, with blocks from another prefill.
    expect(hand.sent()).toEqual(["p1", "d1", "p2"]);
    hand.at("p2").whole(nixlAnswer());
    await settled();
    expect(hand.sent()).toEqual(["p1", "d1", "p2", "d1"]);
    return { ...hand, asked };
  }

  test("prefill's, when the same decode answers with another prefill", async () => {
    const hand = await failedPull();
    hand
      .at("d1", 1)
      .head()
      .push(...ANSWER)
      .end();
    expect(await textOf(hand.asked.response)).toBe(ANSWER.join(""));
    expect({ p1: hand.blamed("p1"), p2: hand.blamed("p2"), d1: hand.blamed("d1") }).toEqual({ p1: 1, p2: 0, d1: 0 });
  });

  test("decode's, when it fails again; it is not tried a third time", async () => {
    const hand = await failedPull();
    hand.at("d1", 1).head().push(ROLE, pull);
    expect(await errorOf(hand.asked.response)).toMatchObject({
      status: 500,
      router: "decode_failed",
      error: { message: "Internal server error" },
    });
    expect(hand.sent()).toHaveLength(4);
    expect({ p1: hand.blamed("p1"), p2: hand.blamed("p2"), d1: hand.blamed("d1") }).toEqual({ p1: 0, p2: 0, d1: 1 });
  });

  test("decode's, when there is no way to try again", async () => {
    const hand = handRouter({ engine: "sglang" }, { retries: { maxRetries: 0 } });
    const { response } = hand.ask();
    await settled();
    hand.at("d1").json({ error: { message: "boom" } }, 500);
    expect((await response).status).toBe(500);
    expect({ p1: hand.blamed("p1"), d1: hand.blamed("d1") }).toEqual({ p1: 0, d1: 1 });
  });
});
