import { describe, expect, test } from "bun:test";
import { Failure } from "../../src/errors/failure.ts";
import { Pieces } from "../../src/json/pieces.ts";
import { settled } from "../manual-clock.ts";
import { handLeg, rejection } from "./hand-made.ts";

describe("opening", () => {
  test("the request goes out as it was made, with a signal of its own", () => {
    const { leg, engine } = handLeg({
      body: new Pieces(['{"seed":', "9223372036854775807}"]),
      headers: { "x-request-id": "a" },
    });
    void leg.open();
    expect(engine()).toMatchObject({
      url: "http://d1:8000/v1/chat/completions",
      method: "POST",
      body: '{"seed":9223372036854775807}',
      headers: { "x-request-id": "a" },
    });
  });

  test.each([
    ["refuse", "refused"],
    ["reset", "reset"],
  ] as const)("an engine that does %s is unreachable, of kind %s", async (how, kind) => {
    const { leg, engine } = handLeg({ role: "prefill" });
    const opening = rejection(leg.open());
    engine()[how]();
    const failure = (await opening) as Failure;
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).toMatchObject({ code: "prefill_unreachable", status: 502, stage: "prefill", kind });
    // Clients see messages: never an address.
    expect(failure.message).not.toContain("d1:8000");
  });

  test("after half of connectMs without headers one bare connection is tried; not open in time is unreachable", async () => {
    const { leg, clock, transport, engine } = handLeg();
    const probes: number[] = [];
    transport.connects = async (_url, ms) => {
      probes.push(ms);
      return false;
    };
    const opening = rejection(leg.open());
    await clock.advance(2_499);
    expect(probes).toEqual([]);
    await clock.advance(1);
    expect(probes).toEqual([2_500]);
    expect(await opening).toMatchObject({ code: "decode_unreachable", status: 502, kind: "connect" });
    expect(engine().closed).toBe(true);
  });

  test("an engine that is slow but there is waited for", async () => {
    const { leg, clock, transport, engine } = handLeg();
    transport.connects = async () => true;
    const opening = leg.open();
    await clock.advance(60_000);
    engine().json({ ok: true });
    expect((await opening).status).toBe(200);
    expect(clock.timers.size).toBe(0);
  });
});

test("what cannot be sent is no worker's fault", async () => {
  const { leg } = handLeg({
    transport: {
      fetch: () => {
        throw new TypeError("a header that cannot be sent");
      },
    },
  });
  expect(await rejection(leg.open())).toMatchObject({ code: "internal", stage: "router", kind: undefined });
});

test("a reader that throws is told so, for a failure of our own, and the leg is closed", async () => {
  const { leg, engine } = handLeg();
  const opening = leg.open();
  engine().head();
  await opening;
  const failed = new Promise<Failure>((resolve) => {
    leg.pull({
      chunk() {
        throw new Error("a bug");
      },
      cut: (failure) => resolve(failure as Failure),
    });
  });
  engine().push("data: 1\n\n");
  expect(await failed).toMatchObject({ code: "internal", stage: "router" });
  expect([leg.closed !== undefined, engine().closed]).toEqual([true, true]);
});

test("what is not HTTP is called so", async () => {
  const { leg } = handLeg();
  const cause = Object.assign(new Error("Parse Error"), { code: "HPE_INVALID_CHUNK_SIZE" });
  expect(leg.lost("cut", cause).message).toBe("The decode worker sent what is not HTTP (HPE_INVALID_CHUNK_SIZE)");
  expect(leg.lost("cut", new Error("gone")).message).toBe("The decode worker cut its answer short");
});

describe("reading a whole answer", () => {
  test.each([true, false])("gives its text; with a length: %p", async (length) => {
    const { leg, engine } = handLeg();
    const answer = leg.answer(1_000);
    if (length) engine().whole('{"a":"naïve"}');
    else engine().head({ "content-type": "application/json" }).push('{"a":"na', "ïve", '"}').end();
    expect(await answer).toMatchObject({ status: 200, text: '{"a":"naïve"}', truncated: false });
    expect(leg.ended).toBe(true);
  });

  test("keeps at most the limit, and reads the rest away so that the engine can finish", async () => {
    const { leg, engine } = handLeg();
    const answer = leg.answer(10);
    engine().head().push("12345", "67890ABC", "DEF").end();
    expect(await answer).toMatchObject({ text: "1234567890", truncated: true });
    expect(leg.ended).toBe(true);
  });

  test("comments and blank lines before it are not part of it, however many and wherever they are cut", async () => {
    const { leg, engine } = handLeg({ role: "prefill" });
    const answer = leg.answer(20);
    engine()
      .head()
      .push(": ping\n\n: p", 'ing - with {"a":0}\r', "\n\r\n", ":", `${"x".repeat(500)}\n`, ' {"a":', '":1"}')
      .end();
    expect(await answer).toMatchObject({ text: '{"a":":1"}', truncated: false });
  });

  test("a body that goes to the client keeps every byte", async () => {
    const { leg, engine } = handLeg();
    const opening = leg.open();
    engine().head().push(" \n", '{"a":1}', "\n").end();
    expect((await leg.text(await opening, 1_000)).text).toBe(' \n{"a":1}\n');
  });

  test("cut before its end is a failure of kind cut", async () => {
    const { leg, engine } = handLeg({ role: "prefill" });
    const answer = rejection(leg.answer(1_000));
    engine().head().push('{"half').cut();
    expect(await answer).toMatchObject({ code: "prefill_unreachable", kind: "cut" });
  });
});

describe("closing", () => {
  test("before headers aborts the request, and the opening rejects", async () => {
    const { leg, engine } = handLeg();
    const opening = rejection(leg.open());
    leg.close("client");
    expect(engine().signal.aborted).toBe(true);
    expect(await opening).toBeInstanceOf(Failure);
    expect(leg.closed).toBe("client");
  });

  test("after headers aborts and cancels the body, once, and tells whoever waits for it", async () => {
    const { leg, engine } = handLeg();
    const opening = leg.open();
    engine().head().push("data: 1\n\n");
    await opening;
    let over = 0;
    leg.onClosed(() => over++);
    expect(await leg.read()).toBeDefined();
    leg.close("other-leg");
    leg.close("client");
    expect(engine().closed).toBe(true);
    expect(leg.closed).toBe("other-leg");
    expect(over).toBe(1);
    leg.onClosed(() => over++);
    expect(over).toBe(2);
  });

  test("an answer that has ended by itself is not closed any more", async () => {
    const { leg, engine } = handLeg();
    const answer = leg.answer(100);
    engine().json({});
    await answer;
    leg.close("client");
    expect(leg.closed).toBeUndefined();
    expect(engine().signal.aborted).toBe(false);
  });
});

describe("lingering, for engines that cannot bear an abort in mid-transfer", () => {
  async function opened() {
    const hand = handLeg();
    const opening = hand.leg.open();
    hand.engine().head();
    await opening;
    return hand;
  }

  test("stays open until the first bytes, then closes", async () => {
    const { leg, engine } = await opened();
    leg.linger("client", 20_000, false);
    await settled();
    expect(leg.closed).toBeUndefined();
    engine().push("data: 1\n\n");
    await settled();
    expect(leg.closed).toBe("client");
  });

  test("closes at once where the first event has been seen already", async () => {
    const { leg } = await opened();
    leg.firstEventSeen = true;
    leg.linger("client", 20_000, false);
    expect(leg.closed).toBe("client");
  });

  test("before headers waits for them and what follows", async () => {
    const { leg, engine } = handLeg();
    const opening = leg.open();
    leg.linger("client", 20_000, false);
    engine().head();
    await opening;
    await settled();
    expect(leg.closed).toBeUndefined();
    engine().push("x");
    await settled();
    expect(leg.closed).toBe("client");
  });

  test("to the end of a buffered answer that is being read whole: it is not closed before", async () => {
    const { leg, engine } = handLeg();
    const answer = leg.answer(1_000);
    engine().head({ "content-length": "12", "content-type": "application/json" }).push('{"a":');
    await settled();
    leg.linger("client", 20_000, true);
    await settled();
    expect(leg.closed).toBeUndefined();
    engine().push('"done"}').end();
    expect((await answer).text).toBe('{"a":"done"}');
    expect(leg.closed).toBeUndefined();
    expect(engine().signal.aborted).toBe(false);
  });

  test.each([true, false])(
    "whoever waits for the whole answer since before gets it (to the end: %p)",
    async (untilEnd) => {
      const { leg, engine } = handLeg();
      const answer = leg.answer(1_000);
      leg.linger("client", 20_000, untilEnd);
      engine().whole('{"a":"done"}');
      expect((await answer).text).toBe('{"a":"done"}');
      await settled();
      expect([leg.closed, leg.ended]).toEqual([undefined, true]);
    },
  );

  test("what was read for nobody is nobody's answer", async () => {
    const { leg, engine } = handLeg();
    const opening = leg.open();
    leg.linger("client", 20_000, true);
    engine().head({ "content-length": "12" }).push('{"a":');
    const head = await opening;
    await settled();
    engine().push('"done"}').end();
    expect(await rejection(Promise.resolve(leg.text(head, 1_000)))).toMatchObject({ kind: "cut" });
  });

  test("never longer than its limit", async () => {
    const { leg, clock } = await opened();
    leg.linger("other-leg", 2_000, true);
    await clock.advance(1_999);
    expect(leg.closed).toBeUndefined();
    await clock.advance(1);
    expect(leg.closed).toBe("other-leg");
  });

  test("a finished answer is read to its end, so that the connection can be used again, and closed when it lingers", async () => {
    const good = await opened();
    good.leg.finish(2_000);
    good.engine().push("data: [DONE]\n\n").end();
    await settled();
    expect(good.leg.closed).toBeUndefined();
    expect(good.clock.timers.size).toBe(0);

    const lingering = await opened();
    lingering.leg.finish(2_000);
    await lingering.clock.advance(2_000);
    expect(lingering.leg.closed).toBe("done");
  });
});
