import { describe, expect, test } from "bun:test";
import { handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";
import { told } from "./lab.ts";

/** Contract section 2, `timeouts`: each with its meaning, with 0, and over all attempts of a request together. */

const SGLANG = { engine: "sglang" };
const VLLM = { engine: "vllm" };
const HOUR = 3_600_000;
const OFF = {
  connectMs: 0,
  prefillMs: 0,
  firstTokenMs: 0,
  idleMs: 0,
  totalMs: 0,
  tailMs: 0,
  settleMs: 0,
  handoffMs: 0,
  keepAliveMs: 0,
};
const quick = (timeouts: object, more: object = {}) => ({ timeouts: { ...OFF, ...timeouts }, ...more });

describe("0 = no limit", () => {
  test("streams: an hour for prefill, an hour for the first token, an hour of silence", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({}));
    const { response } = ask();
    await settled();
    await clock.advance(HOUR);
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(HOUR);
    at("d1").head().push(ROLE, say("hi"));
    const text = textOf(response);
    await settled();
    await clock.advance(HOUR);
    at("d1").push(finish(), DONE).end();
    expect(await text).toBe([ROLE, say("hi"), finish(), DONE].join(""));
  });

  test("buffered: two hours in all", async () => {
    const { at, ask, clock } = handRouter(SGLANG, quick({}));
    const { response } = ask({ stream: false });
    await settled();
    await clock.advance(2 * HOUR);
    at("p1").json(PREFILLED);
    at("d1").json({ choices: [] });
    expect((await response).status).toBe(200);
  });

  test("handoffMs: a hand-off of any age goes to decode, also after a decode that refused", async () => {
    const { at, ask, clock, sent } = handRouter(
      VLLM,
      quick({}, { retries: { maxRetries: 2, backoffMs: 60_000, maxBackoffMs: 60_000 } }),
    );
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").refuse();
    await settled();
    await clock.advance(60_000);
    expect(sent()).toEqual(["p1", "d1", "d2"]);
    at("d2").json({ choices: [] });
    expect((await response).status).toBe(200);
  });

  test("connectMs: nobody is probed", async () => {
    const { transport, ask, clock } = handRouter(SGLANG, quick({}));
    let probes = 0;
    transport.connects = () => {
      probes++;
      return Promise.resolve(false);
    };
    ask();
    await settled();
    await clock.advance(HOUR);
    expect(probes).toBe(0);
  });
});

describe("settleMs 0 = do not wait, tailMs 0 = cut with the response", () => {
  test("a finished stream goes out at once, and the tail is closed with it", async () => {
    const { at, ask, load } = handRouter(SGLANG, quick({}));
    const { response } = ask();
    await settled();
    const all = [ROLE, say("a"), finish(), DONE];
    at("d1")
      .head()
      .push(...all)
      .end();
    expect(await textOf(response)).toBe(all.join(""));
    await settled();
    expect(at("p1").closed).toBe(true);
    expect(load()).toBe(0);
  });

  test("a finished buffered answer too", async () => {
    const { at, ask, load, blamed } = handRouter(SGLANG, quick({}));
    const { response } = ask({ stream: false });
    await settled();
    at("d1").json({ choices: [] });
    expect((await response).status).toBe(200);
    await settled();
    expect(at("p1").closed).toBe(true);
    expect({ load: load(), blamed: blamed("p1") }).toEqual({ load: 0, blamed: 0 });
  });
});

describe("tailMs: how long a prefill tail may outlive the client's response", () => {
  test("counted from the response's end; cut then, which is nobody's fault", async () => {
    const { at, ask, clock, blamed, load } = handRouter(SGLANG, quick({ tailMs: 1_000 }));
    const { response } = ask();
    await settled();
    at("d1").head().push(say("a"), finish(), DONE).end();
    await textOf(response);
    await settled();
    await clock.advance(999);
    expect(at("p1").closed).toBe(false);
    expect(load()).toBeGreaterThan(0);
    await clock.advance(1);
    expect(at("p1").closed).toBe(true);
    expect({ load: load(), blamed: blamed("p1") }).toEqual({ load: 0, blamed: 0 });
  });
});

describe("firstTokenMs: until decode's first answer-carrying event", () => {
  test("a role chunk is none", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ firstTokenMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head().push(ROLE);
    await clock.advance(99);
    expect(at("d1").closed).toBe(false);
    await clock.advance(1);
    expect(await told(response)).toMatchObject({ status: 504, code: "decode_timeout" });
    expect(at("d1").closed).toBe(true);
  });

  test("nor are sixteen events without an answer, which only commit the status: a frame then", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ firstTokenMs: 100, idleMs: 5_000 }));
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1")
      .head()
      .push(...Array<string>(20).fill(ROLE));
    const got = await response;
    expect(got.status).toBe(200);
    const text = got.text();
    await settled();
    await clock.advance(100);
    expect(at("d1").closed).toBe(true);
    expect(await text).toContain('"code":"decode_timeout"');
  });

  test("counted from decode's dispatch in sequential modes, not from prefill's", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ firstTokenMs: 100 }));
    const { response } = ask();
    await settled();
    await clock.advance(500);
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(90);
    at("d1").head().push(say("a"));
    expect((await response).status).toBe(200);
  });

  test("over all attempts together", async () => {
    const { at, ask, clock, sent } = handRouter(VLLM, quick({ firstTokenMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(60);
    at("d1").reset();
    await settled();
    at("p2").whole(nixlAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1", "p2", "d2"]);
    await clock.advance(39);
    expect(at("d2").closed).toBe(false);
    await clock.advance(1);
    expect(await told(response)).toMatchObject({ status: 504, code: "decode_timeout" });
  });

  test("does not apply to buffered answers", async () => {
    const { at, ask, clock } = handRouter(SGLANG, quick({ firstTokenMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    at("p1").json(PREFILLED);
    await clock.advance(5_000);
    at("d1").json({ choices: [] });
    expect((await response).status).toBe(200);
  });
});

describe("totalMs: buffered answers only, decode's dispatch to last byte", () => {
  test("not streams", async () => {
    const { at, ask, clock } = handRouter(SGLANG, quick({ totalMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head().push(say("a"));
    const text = textOf(response);
    await clock.advance(10_000);
    at("d1").push(finish(), DONE).end();
    expect(await text).toEndWith(DONE);
  });

  test("prefill's time is not in it", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ totalMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    await clock.advance(500);
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(90);
    at("d1").json({ choices: [] });
    expect((await response).status).toBe(200);
  });

  test("nor is prefill's time in a second attempt: no decode is blamed for what another leg has used up", async () => {
    const { at, ask, clock, blamed, sent } = handRouter(VLLM, quick({ totalMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(20);
    at("d1").reset();
    await settled();
    await clock.advance(500);
    at("p2").whole(nixlAnswer());
    await settled();
    expect(sent()).toEqual(["p1", "d1", "p2", "d2"]);
    await clock.advance(70);
    at("d2").json({ choices: [] });
    expect((await response).status).toBe(200);
    expect(blamed("d2")).toBe(0);
  });

  test("over all attempts together", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ totalMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(60);
    at("d1").reset();
    await settled();
    at("p2").whole(nixlAnswer());
    await settled();
    await clock.advance(40);
    expect(await told(response)).toMatchObject({ status: 504, code: "decode_timeout" });
  });

  test("to the last byte: an answer that trickles is cut", async () => {
    const { at, ask, clock } = handRouter(SGLANG, quick({ totalMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    at("p1").json(PREFILLED);
    at("d1").head({ "content-type": "application/json" }).push('{"choices"');
    await clock.advance(100);
    expect(await told(response)).toMatchObject({ status: 504, code: "decode_timeout" });
    expect(at("d1").closed).toBe(true);
  });
});

describe("prefillMs: prefill leg, dispatch to complete answer", () => {
  test("headers do not stop it", async () => {
    const { at, ask, clock } = handRouter(SGLANG, quick({ prefillMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").head({ "content-type": "application/json" }).push("{");
    await clock.advance(100);
    expect(await told(response)).toMatchObject({ status: 504, code: "prefill_timeout" });
    expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
  });

  test("over all attempts together", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ prefillMs: 100 }));
    const { response } = ask();
    await settled();
    await clock.advance(60);
    at("p1").reset();
    await settled();
    await clock.advance(39);
    expect(at("p2").closed).toBe(false);
    await clock.advance(1);
    expect(await told(response)).toMatchObject({ status: 504, code: "prefill_timeout" });
  });

  test("decode's time is not in it: a second attempt's prefill is not blamed for what decode has used up", async () => {
    const { at, ask, clock, blamed } = handRouter(VLLM, quick({ prefillMs: 100 }));
    const { response } = ask();
    await settled();
    await clock.advance(20);
    at("p1").whole(nixlAnswer());
    await settled();
    await clock.advance(500);
    at("d1").reset();
    await settled();
    await clock.advance(70);
    at("p2").whole(nixlAnswer());
    await settled();
    at("d2").head().push(say("a"), finish(), DONE).end();
    expect((await response).status).toBe(200);
    expect(blamed("p2")).toBe(0);
  });

  test("the pause between attempts is nobody's time", async () => {
    const { at, ask, clock, sent } = handRouter(
      VLLM,
      quick({ prefillMs: 100 }, { retries: { maxRetries: 2, backoffMs: 5_000, maxBackoffMs: 5_000 } }),
    );
    const { response } = ask({ stream: false });
    await settled();
    await clock.advance(50);
    at("p1").refuse();
    await settled();
    while (sent().length < 2) await clock.advance(10);
    await clock.advance(20);
    at("p2").whole(nixlAnswer());
    await settled();
    at("d2").json({ choices: [] });
    expect((await response).status).toBe(200);
  });
});

describe("a limit ends with its leg", () => {
  test("a client that has left while prefill runs: prefillMs later nobody is blamed", async () => {
    for (const engine of ["vllm", "trtllm", "sglang"]) {
      for (const cancel of ["anytime", "deferred"]) {
        const { ask, clock, blamed, load } = handRouter(
          { engine, cancel },
          { timeouts: { prefillMs: 10_000, tailMs: 20_000 } },
        );
        const { response, leave } = ask();
        await settled();
        leave();
        await response;
        await clock.advance(60_000);
        const left = { p1: blamed("p1"), d1: blamed("d1"), load: load(), timers: clock.timers.size };
        expect({ engine, cancel, ...left }).toEqual({ engine, cancel, p1: 0, d1: 0, load: 0, timers: 0 });
      }
    }
  });

  test("a failed prefill is blamed once, not again prefillMs later", async () => {
    const { at, ask, clock, blamed } = handRouter(VLLM, {
      timeouts: { prefillMs: 10_000 },
      retries: { maxRetries: 0 },
    });
    const { response } = ask();
    await settled();
    at("p1").reset();
    await response;
    expect(clock.timers.size).toBe(0);
    await clock.advance(60_000);
    expect(blamed("p1")).toBe(1);
  });
});

describe("idleMs: streams, longest silence after the first answer", () => {
  test("not before it", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ idleMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head().push(ROLE);
    await clock.advance(10_000);
    at("d1").push(say("a"), finish(), DONE).end();
    expect((await response).status).toBe(200);
  });

  test("comments are silence", async () => {
    const { at, ask, clock, blamed } = handRouter(VLLM, quick({ idleMs: 100 }));
    const { response } = ask();
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head().push(say("a"));
    const text = textOf(response);
    for (let ms = 0; ms < 100; ms += 20) {
      await clock.advance(20);
      at("d1").push(": ping\n\n");
      await settled();
    }
    expect(await text).toContain('"code":"decode_timeout"');
    expect(at("d1").closed).toBe(true);
    expect(blamed("d1")).toBe(1);
  });

  test("not in buffered answers", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({ idleMs: 100 }));
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head({ "content-type": "application/json" }).push('{"choices":');
    await clock.advance(10_000);
    at("d1").push("[]}").end();
    expect((await response).status).toBe(200);
  });
});

describe("handoffMs: oldest hand-off that may be sent to decode", () => {
  test("an older one never is: prefill is done anew", async () => {
    const { at, ask, clock, sent } = handRouter(
      VLLM,
      quick({ handoffMs: 1_000 }, { retries: { maxRetries: 3, backoffMs: 2_000, maxBackoffMs: 2_000 } }),
    );
    const { response } = ask({ stream: false });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").refuse();
    await settled();
    await clock.advance(2_000);
    expect(sent()).toEqual(["p1", "d1", "p2"]);
    at("p2").whole(nixlAnswer());
    await settled();
    at(sent()[3]!, sent()[3] === "d1" ? 1 : 0).json({ choices: [] });
    expect((await response).status).toBe(200);
  });
});

describe("keepAliveMs: SSE comments while waiting for the first token", () => {
  const config = quick({ keepAliveMs: 100 });

  test("0: none, however long it takes", async () => {
    const { at, ask, clock } = handRouter(VLLM, quick({}));
    const { response } = ask();
    await settled();
    await clock.advance(10_000);
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head().push(say("a"), finish(), DONE).end();
    expect(await textOf(response)).toBe([say("a"), finish(), DONE].join(""));
  });

  test("the first comment sent commits 200; none once there is an answer", async () => {
    const { at, ask, clock } = handRouter(VLLM, config);
    const { response } = ask();
    await settled();
    await clock.advance(100);
    const got = await response;
    expect(got.status).toBe(200);
    expect(got.headers.get("content-type")).toStartWith("text/event-stream");
    expect(got.headers.get("x-accel-buffering")).toBe("no");
    const text = got.text();
    await settled();
    await clock.advance(200);
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").head().push(say("a"));
    await clock.advance(1_000);
    at("d1").push(finish(), DONE).end();
    const all = await text;
    expect(all).toMatch(/^(?::[^\n]*\n\n){3}data: /);
    expect(all.replace(/^(?::[^\n]*\n\n)+/, "")).toBe([say("a"), finish(), DONE].join(""));
  });

  test("behind a comment a byte order mark of decode's would be none, and does not go out", async () => {
    const { at, ask, clock } = handRouter(VLLM, config);
    const { response } = ask();
    await settled();
    await clock.advance(100);
    const bytes = (await response).arrayBuffer();
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1")
      .head()
      .push(`\ufeff${say("a")}`, finish(), DONE)
      .end();
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(await bytes);
    expect(text.replace(/^(?::[^\n]*\n\n)+/, "")).toBe([say("a"), finish(), DONE].join(""));
  });

  test("after the first comment nothing is tried again, also where the pause before a retry had begun", async () => {
    const { at, ask, clock, sent } = handRouter(
      { engine: "sglang" },
      { ...config, retries: { backoffMs: 5_000, maxBackoffMs: 5_000 } },
    );
    const { response } = ask();
    await settled();
    at("d1").refuse();
    await settled();
    await clock.advance(100);
    const text = (await response).text();
    await clock.advance(30_000);
    expect(await text).toContain('"code":"decode_unreachable"');
    expect(sent()).toEqual(["p1", "d1"]);
  });

  test("buffered answers have none", async () => {
    const { at, ask, clock } = handRouter(VLLM, config);
    const { response } = ask({ stream: false });
    await settled();
    await clock.advance(10_000);
    at("p1").whole(nixlAnswer());
    await settled();
    at("d1").json({ choices: [] });
    expect(await textOf(response)).toBe('{"choices":[]}');
  });

  for (const [api, body, frame] of [
    ["/v1/messages", { messages: [], max_tokens: 9 }, /^event: error\ndata: \{"type":"error","error":\{"type":"/],
    ["/v1/responses", { input: "x" }, /^event: error\ndata: \{"type":"error","code":/],
    ["/v1/completions", { prompt: "x" }, /^data: \{"error":\{.*\n\ndata: \[DONE\]\n\n$/],
  ] as const) {
    test(`${api}: a later failure is its frame, and nothing is tried again`, async () => {
      const { at, ask, clock, sent } = handRouter(VLLM, config);
      const { response } = ask({ messages: undefined, ...body }, { path: api });
      await settled();
      await clock.advance(100);
      at("p1").json({ error: { message: "no room", code: 503 } }, 503);
      const text = await textOf(response);
      expect(text.replace(/^(?::[^\n]*\n\n)+/, "")).toMatch(frame);
      expect(text).toContain("no room");
      expect(sent()).toEqual(["p1"]);
    });
  }
});

describe("connectMs: half of it without headers, then one bare connection to that origin", () => {
  for (const [leg, code] of [
    ["p1", "prefill_unreachable"],
    ["d1", "decode_unreachable"],
  ] as const) {
    test(`not open in time means ${code} (502)`, async () => {
      const { ask, transport, clock, at } = handRouter(
        SGLANG,
        quick({ connectMs: 1_000 }, { retries: { maxRetries: 0 } }),
      );
      const probed: [string, number][] = [];
      transport.connects = (url, ms) => {
        probed.push([new URL(url).hostname, ms]);
        return Promise.resolve(!url.startsWith(`http://${leg}`));
      };
      const { response } = ask();
      await settled();
      await clock.advance(499);
      expect(probed).toEqual([]);
      await clock.advance(1);
      expect(probed).toContainEqual([leg, 500]);
      expect(await told(response)).toMatchObject({ status: 502, code });
      expect([at("p1").closed, at("d1").closed]).toEqual([true, true]);
    });
  }
});
