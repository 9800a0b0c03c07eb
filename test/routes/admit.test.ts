import { describe, expect, test } from "bun:test";
import { errorOf, handRouter, PREFILLED, settled } from "../attempt/hand-made.ts";
import { finish, say } from "../relay/hand-made.ts";

const ONE_AT_A_TIME = { limits: { concurrency: 1, queue: 1, queueMs: 1_000 } };

describe("the door", () => {
  test("a request over the limit waits, and goes as soon as a place is free", async () => {
    const { router, at, ask, sent } = handRouter({ engine: "sglang" }, ONE_AT_A_TIME);
    const first = ask({ stream: false });
    await settled();
    const second = ask({ stream: false });
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    at("p1").json(PREFILLED);
    at("d1").json(PREFILLED);
    expect((await first.response).status).toBe(200);
    await settled();
    expect(sent()).toHaveLength(4);
    second.leave();
    await settled();
    expect(router.active()).toBe(0);
  });

  test("one that finds no waiting place is refused at once, with Retry-After", async () => {
    const { ask } = handRouter({ engine: "sglang" }, ONE_AT_A_TIME);
    ask();
    await settled();
    ask();
    await settled();
    const third = await ask().response;
    expect(third.status).toBe(503);
    expect(third.headers.get("retry-after")).toBe("1");
    expect(third.headers.get("x-router-error-code")).toBe("router_overloaded");
  });

  test("one that waits too long is told so", async () => {
    const { ask, clock } = handRouter({ engine: "sglang" }, ONE_AT_A_TIME);
    ask();
    await settled();
    const { response } = ask();
    await clock.advance(1_000);
    expect(await errorOf(response)).toMatchObject({ status: 503, router: "queue_timeout" });
  });

  test("a client that leaves while it waits gives its waiting place to the next, and no engine is asked for it", async () => {
    const { ask, at, sent, router, transport } = handRouter({ engine: "sglang" }, ONE_AT_A_TIME);
    const first = ask({ stream: false });
    await settled();
    const second = ask({ messages: [{ role: "user", content: "second" }] });
    await settled();
    second.leave();
    await settled();
    const third = ask({ messages: [{ role: "user", content: "third" }] });
    await settled();
    expect(sent()).toEqual(["p1", "d1"]);
    at("p1").json(PREFILLED);
    at("d1").json(PREFILLED);
    await first.response;
    await settled();
    const bodies = transport.requests.map(({ body }) => body).join();
    expect(bodies).toContain("third");
    expect(bodies).not.toContain("second");
    third.leave();
    await settled();
    expect(router.active()).toBe(0);
  });
});

describe("keep-alive comments", () => {
  const every = (keepAliveMs: number) => ({ timeouts: { keepAliveMs } });

  test("bridge the wait for the first token; what comes then is the stream as it is", async () => {
    const { at, ask, clock, router } = handRouter({ engine: "sglang" }, every(100));
    const { response } = ask();
    await clock.advance(100);
    const reader = (await response).body!.getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await read()).toBe(": keep-alive\n\n");
    const second = read();
    await clock.advance(100);
    expect(await second).toBe(": keep-alive\n\n");
    const third = read();
    at("p1").json(PREFILLED);
    at("d1").head().push(say("hi"));
    expect(await third).toBe(say("hi"));
    at("d1").push(`${finish()}data: [DONE]\n\n`).end();
    expect(await read()).toBe(`${finish()}data: [DONE]\n\n`);
    expect((await reader.read()).done).toBe(true);
    expect(router.active()).toBe(0);
  });

  test("an answer in time is without any", async () => {
    const { at, ask, clock } = handRouter({ engine: "sglang" }, every(100));
    const { response } = ask();
    await clock.advance(50);
    at("p1").json({ error: { message: "bad" } }, 400);
    expect((await response).status).toBe(400);
  });

  test("their price: a failure after the first one is a frame, nothing is tried again, and it is counted", async () => {
    const { at, ask, clock, sent, counter, router } = handRouter({ engine: "sglang" }, every(100));
    const { response } = ask();
    await clock.advance(100);
    const got = await response;
    expect(got.status).toBe(200);
    at("p1").json({ error: { message: "out of KV" } }, 503);
    const text = await got.text();
    expect(text).toStartWith(': keep-alive\n\ndata: {"error":{"message":"out of KV"');
    expect(text).toEndWith("data: [DONE]\n\n");
    expect(sent()).toEqual(["p1", "d1"]);
    expect(counter("error_frames_total")).toBe(1);
    expect(router.active()).toBe(0);
  });

  test("a client that leaves between two of them, without reading on, is forgotten at once", async () => {
    const { ask, clock, router, load, at } = handRouter({ engine: "sglang" }, every(100));
    const { response } = ask();
    await clock.advance(100);
    const reader = (await response).body!.getReader();
    await reader.read();
    await reader.cancel();
    await settled();
    expect({ load: load(), active: router.active() }).toEqual({ load: 0, active: 0 });
    expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
  });

  test("a failure that nobody comes to read does not hold a place for ever", async () => {
    const { ask, clock, router, at } = handRouter({ engine: "sglang" }, every(100));
    const { response } = ask();
    await clock.advance(100);
    await response;
    at("p1").json({ error: { message: "bad" } }, 400);
    await settled();
    expect(router.active()).toBe(0);
  });
});
