import { describe, expect, test } from "bun:test";
import {
  type Asked,
  type HandRouter,
  handRouter,
  nixlAnswer,
  PREFILLED,
  settled,
  textOf,
} from "../attempt/hand-made.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";
import { told } from "./lab.ts";

/** Contract section 6, by setting, by who ends it, and by the moment. */

const ONCE = { retries: { maxRetries: 0 } };
const closedOf = ({ at }: HandRouter) => [at("p1").closed, at("d1").closed];

async function begun(
  cancel: "anytime" | "deferred",
  body: object = {},
  config: object = {},
): Promise<HandRouter & Asked> {
  const lab = handRouter({ engine: "sglang", cancel }, config);
  const asked = lab.ask(body);
  await settled();
  return { ...lab, ...asked };
}

describe("anytime: a client that leaves, or one leg's failure, tears down both legs at once", () => {
  for (const stream of [true, false]) {
    const kind = stream ? "streamed" : "buffered";
    test(`${kind}: the client leaves before any headers`, async () => {
      const lab = await begun("anytime", { stream });
      lab.leave();
      await settled();
      expect([...closedOf(lab), lab.load(), lab.router.active()]).toEqual([true, true, 0, 0]);
      expect([lab.blamed("p1"), lab.blamed("d1")]).toEqual([0, 0]);
    });

    for (const leg of ["p1", "d1"] as const) {
      test(`${kind}: ${leg} fails`, async () => {
        const lab = await begun("anytime", { stream }, ONCE);
        lab.at(leg).json({ error: { message: "x" } }, 400);
        await lab.response;
        const other = leg === "p1" ? "d1" : "p1";
        expect([lab.at(other).closed, lab.load(), lab.clock.timers.size]).toEqual([true, 0, 0]);
      });
    }
  }

  test("the client leaves in the middle of its stream", async () => {
    const lab = await begun("anytime");
    lab.at("d1").head().push(ROLE, say("a"));
    const reader = (await lab.response).body!.getReader();
    await reader.read();
    await reader.cancel();
    await settled();
    expect([...closedOf(lab), lab.load()]).toEqual([true, true, 0]);
  });

  test("the client leaves while a finished stream waits for the tail", async () => {
    const lab = await begun("anytime");
    lab.at("d1").head().push(say("a"), finish(), DONE);
    const reader = (await lab.response).body!.getReader();
    await reader.read();
    void reader.read();
    await settled();
    await reader.cancel();
    await settled();
    expect([lab.at("p1").closed, lab.load(), lab.router.active()]).toEqual([true, 0, 0]);
  });

  test("the client leaves in the pause between two attempts: nothing more is sent", async () => {
    const lab = handRouter({ engine: "sglang" }, { retries: { backoffMs: 1_000 } });
    const { leave, response } = lab.ask();
    await settled();
    lab.at("d1").refuse();
    await settled();
    leave();
    await response;
    await lab.clock.advance(10_000);
    expect([lab.sent().length, lab.load(), lab.router.active()]).toEqual([2, 0, 0]);
  });
});

describe("deferred: both legs stay until decode's first event (buffered: prefill's end), then they are closed; at most tailMs", () => {
  test("streamed: the client leaves; headers, comments and halves of events are no event", async () => {
    const lab = await begun("deferred");
    lab.leave();
    await settled();
    lab.at("d1").head().push(": ping\n\n");
    await settled();
    expect(closedOf(lab)).toEqual([false, false]);
    expect(lab.load()).toBeGreaterThan(0);
    lab.at("d1").push(ROLE);
    await settled();
    expect([...closedOf(lab), lab.load()]).toEqual([true, true, 0]);
  });

  test("streamed: the client leaves after decode's first event: at once", async () => {
    const lab = await begun("deferred");
    lab.at("d1").head().push(ROLE);
    await settled();
    lab.leave();
    await settled();
    expect([...closedOf(lab), lab.load()]).toEqual([true, true, 0]);
  });

  test("buffered: until prefill's end", async () => {
    const lab = await begun("deferred", { stream: false });
    lab.leave();
    await settled();
    expect(closedOf(lab)).toEqual([false, false]);
    lab.at("p1").json(PREFILLED);
    await settled();
    expect([lab.at("d1").closed, lab.load()]).toEqual([true, 0]);
  });

  for (const stream of [true, false]) {
    test(`${stream ? "streamed" : "buffered"}: at most tailMs`, async () => {
      const lab = await begun("deferred", { stream }, { timeouts: { tailMs: 1_000 } });
      lab.leave();
      await lab.clock.advance(999);
      expect(closedOf(lab)).toEqual([false, false]);
      await lab.clock.advance(1);
      expect([...closedOf(lab), lab.load(), lab.blamed("p1"), lab.blamed("d1")]).toEqual([true, true, 0, 0, 0]);
    });
  }

  test("a leg that fails: the error goes out at once, the retry starts at once with fresh ids, the load goes with the legs", async () => {
    const lab = await begun("deferred");
    lab.at("p1").json({ error: { message: "full" } }, 503);
    await settled();
    expect(lab.sent()).toEqual(["p1", "d1", "p2", "d2"]);
    expect(lab.at("d1").closed).toBe(false);
    const room = (name: string) => /"bootstrap_room":\s*(\d+)/.exec(lab.at(name).body)![1];
    expect(room("p2")).toBe(room("d2")!);
    expect(room("p2")).not.toBe(room("p1")!);
    expect(lab.worker("d1").load.requests).toBe(1);
    lab.at("d1").head().push(ROLE);
    await settled();
    expect([lab.at("d1").closed, lab.worker("d1").load.requests]).toEqual([true, 0]);
    lab.at("p2").json({ error: { message: "bad" } }, 400);
    expect(await told(lab.response)).toMatchObject({ status: 400 });
    expect(lab.at("d2").closed).toBe(false);
    await lab.clock.advance(20_000);
    expect([lab.at("d2").closed, lab.load()]).toEqual([true, 0]);
  });

  test("a time limit follows the same rule", async () => {
    const lab = await begun("deferred", {}, { timeouts: { prefillMs: 100, tailMs: 5_000 } });
    await lab.clock.advance(100);
    expect(await told(lab.response)).toMatchObject({ status: 504, code: "prefill_timeout" });
    expect(lab.at("d1").closed).toBe(false);
    await lab.clock.advance(5_000);
    expect([lab.at("d1").closed, lab.load()]).toEqual([true, 0]);
  });

  test("a shutdown that is over tells the client at once", async () => {
    const lab = await begun("deferred");
    const down = lab.router.shutdown(100);
    await lab.clock.advance(100);
    expect(await told(lab.response)).toMatchObject({ status: 503, code: "shutting_down" });
    await lab.clock.advance(30_000);
    await down;
    expect(lab.load()).toBe(0);
  });
});

describe("sequential modes: once prefill has answered with a hand-off, decode gets it even if the client has left", () => {
  const CTX =
    '{"prompt_token_ids":[1],"choices":[{"index":0,"finish_reason":"length","disaggregated_params":{"ctx_request_id":1,"disagg_request_id":2}}],"usage":{}}';
  for (const engine of ["vllm", "trtllm"]) {
    for (const cancel of ["anytime", "deferred"] as const) {
      const answer = engine === "vllm" ? nixlAnswer() : CTX;
      test(`${engine}, ${cancel}: left in the tick of prefill's answer: a release request, once, counted, closed at its answer`, async () => {
        const lab = handRouter({ engine, cancel });
        const { leave } = lab.ask();
        await settled();
        leave();
        lab.at("p1").whole(answer);
        await settled();
        expect(lab.sent()).toEqual(["p1", "d1"]);
        expect(JSON.parse(lab.at("d1").body)).toMatchObject({ stream: false, max_tokens: 1 });
        expect(lab.at("d1").headers["x-request-id"]).toBe(lab.at("p1").headers["x-request-id"]!);
        expect(lab.counter("handoffs_released_total")).toBe(1);
        lab.at("d1").head();
        await settled();
        expect([lab.at("d1").closed, lab.load(), lab.blamed("d1")]).toEqual([true, 0, 0]);
      });

      test(`${engine}, ${cancel}: the release request is closed after 2 s at the latest`, async () => {
        const lab = handRouter({ engine, cancel });
        const { leave } = lab.ask();
        await settled();
        leave();
        lab.at("p1").whole(answer);
        await settled();
        await lab.clock.advance(1_999);
        expect(lab.at("d1").closed).toBe(false);
        await lab.clock.advance(1);
        expect([lab.at("d1").closed, lab.load(), lab.clock.timers.size]).toEqual([true, 0, 0]);
      });

      test(`${engine}, ${cancel}: a decode that had been sent is closed after its first event, after 2 s at the latest`, async () => {
        for (const speaks of [true, false]) {
          const lab = handRouter({ engine, cancel });
          const { leave } = lab.ask();
          await settled();
          lab.at("p1").whole(answer);
          await settled();
          leave();
          await lab.clock.advance(1_000);
          expect([lab.sent().length, lab.at("d1").closed]).toEqual([2, false]);
          if (speaks) {
            lab.at("d1").head().push(": ping\n\n", ROLE);
            await settled();
          } else await lab.clock.advance(1_000);
          expect([lab.at("d1").closed, lab.load()]).toEqual([true, 0]);
        }
      });

      test(`${engine}, ${cancel}: a prefill that finished the answer alone leaves nothing to release`, async () => {
        const lab = handRouter({ engine, cancel });
        const { leave } = lab.ask();
        await settled();
        leave();
        lab
          .at("p1")
          .json({ choices: [{ index: 0, message: { content: "a" }, finish_reason: "stop" }], prompt_token_ids: [1] });
        await settled();
        expect([lab.sent().length, lab.load()]).toEqual([1, 0]);
      });
    }
  }

  test("a client that leaves in the pause before a retry with an unread hand-off: it is released", async () => {
    const lab = handRouter({ engine: "vllm" }, { retries: { backoffMs: 1_000 } });
    const { leave, response } = lab.ask();
    await settled();
    lab.at("p1").whole(nixlAnswer());
    await settled();
    lab.at("d1").refuse();
    await settled();
    leave();
    await response;
    await settled();
    await lab.clock.advance(3_000);
    expect(lab.counter("handoffs_released_total")).toBe(1);
    expect(lab.load()).toBe(0);
  });

  test("a hand-off that decode refused, with no retry left: it is released where another decode can take it", async () => {
    const lab = handRouter({ engine: "vllm" }, ONCE);
    const { response } = lab.ask();
    await settled();
    lab.at("p1").whole(nixlAnswer());
    await settled();
    lab.at("d1").refuse();
    expect(await told(response)).toMatchObject({ status: 502, code: "decode_unreachable" });
    await settled();
    await lab.clock.advance(3_000);
    expect(lab.counter("handoffs_released_total")).toBe(1);
    expect([lab.at("d2").closed, lab.load()]).toEqual([true, 0]);
  });
});

describe("a good answer is never torn down", () => {
  test("deferred or not, streamed or not: prefill's tail is read to its end", async () => {
    for (const cancel of ["anytime", "deferred"] as const) {
      for (const stream of [true, false]) {
        const lab = await begun(cancel, { stream });
        if (stream) lab.at("d1").head().push(say("a"), finish(), DONE).end();
        else lab.at("d1").json({ choices: [] });
        const text = textOf(lab.response);
        await lab.clock.advance(500);
        await text;
        await settled();
        expect(lab.at("p1").closed).toBe(false);
        lab.at("p1").json(PREFILLED);
        await settled();
        expect([...closedOf(lab), lab.load(), lab.clock.timers.size]).toEqual([false, false, 0, 0]);
      }
    }
  });
});

describe("SIGTERM: who was let in before it may finish, also while the body is still on its way", () => {
  function slowBody(path: string, lab: HandRouter) {
    let send: (text: string) => void = () => {};
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        send = (text) => {
          controller.enqueue(new TextEncoder().encode(text));
          controller.close();
        };
      },
    });
    const request = new Request(`http://r${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    return { send, response: Promise.resolve(lab.router.fetch(request)) };
  }
  const pool = { engine: "openai", prefill: [], decode: [], workers: [{ name: "w", url: "http://w:1" }] };

  for (const path of ["/v1/chat/completions", "/v1/embeddings"]) {
    test(`${path}: in time it is answered, and the shutdown waits for it`, async () => {
      const lab = handRouter(pool);
      const { send, response } = slowBody(path, lab);
      await settled();
      let down = false;
      const shutdown = lab.router.shutdown(10_000).then(() => {
        down = true;
      });
      await lab.clock.advance(1_000);
      expect(down).toBe(false);
      send('{"model":"m","messages":[],"input":"x"}');
      await settled();
      await lab.clock.advance(1_000);
      lab.at("w").json({ choices: [] });
      expect((await response).status).toBe(200);
      await lab.clock.advance(100);
      await shutdown;
      expect(down).toBe(true);
    });

    test(`${path}: when the time is up it is told so, and no engine hears of it`, async () => {
      const lab = handRouter(pool);
      const { send, response } = slowBody(path, lab);
      await settled();
      const shutdown = lab.router.shutdown(1_000);
      await lab.clock.advance(1_100);
      send('{"model":"m","messages":[],"input":"x"}');
      expect(await told(response)).toMatchObject({ status: 503, code: "shutting_down" });
      await lab.clock.advance(2_000);
      await shutdown;
      expect(lab.sent()).toEqual([]);
    });
  }
});
