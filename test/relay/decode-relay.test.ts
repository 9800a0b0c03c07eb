import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ClientGone, Failure } from "../../src/errors/failure.ts";
import { settled } from "../manual-clock.ts";
import { chunk, DONE, event, failPrefill, finish, ROLE, relayed, say, settlePrefill, USAGE } from "./hand-made.ts";

const ANSWER = ROLE + say("The ") + say("river") + finish() + USAGE + DONE;

describe("passing on", () => {
  test("a good stream reaches the client byte for byte, ends, and closes nothing", async () => {
    const { engine, task, drain, told, clock } = await relayed();
    settlePrefill(task);
    engine.push(ANSWER).end();
    expect(await drain()).toBe(ANSWER);
    expect(told).toEqual(["first event", "usage", "ended"]);
    expect(engine.closed).toBe(false);
    expect(clock.timers.size).toBe(0);
  });

  test("wherever the chunks are cut, the client gets the same bytes, and only whole events", async () => {
    const text = `: ping\n\n${ROLE}${say("naïve 東京")}: \n\n${say("🙂")}${finish()}${USAGE}${DONE}`;
    const bytes = new TextEncoder().encode(text);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(bytes.length - 1), { maxLength: 12 }), async (cuts) => {
        const { engine, task, read } = await relayed();
        settlePrefill(task);
        let from = 0;
        for (const to of [...cuts.sort((a, b) => a - b), bytes.length]) {
          if (to > from) engine.push(bytes.slice(from, to));
          from = to;
        }
        engine.end();
        let got = "";
        for (let part = await read(); part !== undefined; part = await read()) {
          expect(part.endsWith("\n\n")).toBe(true);
          got += part;
        }
        expect(got).toBe(text);
      }),
      { numRuns: 60 },
    );
  });

  test("ordinary events wait for nothing, least of all for prefill", async () => {
    const { engine, read } = await relayed();
    engine.push(say("one"));
    expect(await read()).toBe(say("one"));
    engine.push(say("two"));
    expect(await read()).toBe(say("two"));
  });

  test("nothing is read that nobody waits for", async () => {
    const { engine, read, commit } = await relayed();
    engine.push(say("1"), say("2"), say("3"), say("4"));
    await settled();
    expect(commit.state).toBe("committed");
    expect(engine.pulls).toBe(1);
    expect(await read()).toBe(say("1"));
    await settled();
    expect(engine.pulls).toBe(1);
    expect(await read()).toBe(say("2"));
    await settled();
    expect(engine.pulls).toBe(2);
  });
});

describe("the finish waits for prefill's tail", () => {
  test("it and all behind it are held, and go out when the tail is good", async () => {
    const { engine, task, read, drain, told, clock } = await relayed();
    engine.push(say("all"), finish() + USAGE + DONE);
    expect(await read()).toBe(say("all"));
    const rest = drain();
    await clock.advance(120);
    expect(told).not.toContain("ended");
    settlePrefill(task);
    expect(await rest).toBe(finish() + USAGE + DONE);
    expect(told).toContain("waited 120 true");
    expect(told.at(-1)).toBe("ended");
  });

  test("at most settleMs; a failure after that is counted and changes nothing", async () => {
    const { engine, task, drain, told, clock } = await relayed();
    engine.push(say("all"), finish());
    const all = drain();
    await clock.advance(499);
    expect(told).toEqual(["first event"]);
    await clock.advance(1);
    expect(told).toContain("waited 500 false");
    failPrefill(task, "status");
    engine.push(DONE);
    expect(await all).toBe(say("all") + finish() + DONE);
    expect(told).toContain("late status after_end passed");
  });

  test("not at all with settleMs 0, nor without a prefill beside decode", async () => {
    for (const settings of [{ limits: { settleMs: 0 } }, { alone: true }]) {
      const { engine, drain } = await relayed(settings);
      engine.push(ANSWER).end();
      expect(await drain()).toBe(ANSWER);
    }
  });

  test("a tail that fails takes the finish's place: one frame, the end mark, decode's success is not told", async () => {
    const { engine, task, drain, told } = await relayed();
    engine.push(say("all"), finish() + DONE);
    const all = drain();
    await settled();
    failPrefill(task, "status", "KV transfer failed");
    const text = await all;
    expect(text).toStartWith(say("all"));
    expect(text).not.toContain('finish_reason":"stop"');
    const frame = JSON.parse(text.slice(say("all").length).split("\n")[0]!.slice("data: ".length));
    expect(frame.error).toMatchObject({ message: "KV transfer failed", code: "prefill_failed", stage: "prefill" });
    expect(text).toEndWith(`\n\n${DONE}`);
    expect(told).toEqual(["first event", "late status streaming shown", "prefill_failed"]);
  });
});

describe("a late failure of prefill while decode streams", () => {
  test("ends the stream in the same tick, without waiting for decode", async () => {
    const { engine, task, read, told } = await relayed();
    engine.push(say("one"));
    await read();
    const next = read();
    await settled();
    failPrefill(task, "reset", "The prefill worker cut its answer short");
    const frame = await next;
    expect(JSON.parse(frame!.split("\n")[0]!.slice(6)).error).toMatchObject({
      code: "prefill_unreachable",
      stage: "prefill",
    });
    expect(frame).toEndWith(`\n\n${DONE}`);
    expect(await read()).toBeUndefined();
    expect(told).toContain("prefill_unreachable");
  });

  test("never puts half an event before its frame", async () => {
    const { engine, task, read } = await relayed();
    engine.push(say("one"));
    await read();
    const next = read();
    engine.push(say("two").slice(0, 20));
    await settled();
    failPrefill(task, "status");
    expect(await next).toStartWith('data: {"error":');
  });

  test("definitive: a tail that is only lost, after an answer, is counted and the stream goes on", async () => {
    for (const kind of ["reset", "cut"] as const) {
      const { engine, task, drain, told } = await relayed({ options: { lateFailure: "definitive" } });
      engine.push(say("one"));
      await settled();
      failPrefill(task, kind);
      engine.push(finish(), DONE).end();
      expect(await drain()).toBe(say("one") + finish() + DONE);
      expect(told).toEqual(["first event", `late ${kind} streaming passed`, "ended"]);
    }
  });

  test("definitive: an answer that is an error ends the stream, and so does a loss before any answer", async () => {
    const said = await relayed({ options: { lateFailure: "definitive" } });
    said.engine.push(say("one"));
    await settled();
    failPrefill(said.task, "status", "out of memory");
    expect(await said.drain()).toContain('"message":"out of memory"');

    const lost = await relayed({ options: { lateFailure: "definitive" } });
    lost.engine.push(ROLE);
    await settled();
    failPrefill(lost.task, "reset");
    await settled();
    expect(lost.commit.state).toMatchObject({ code: "prefill_unreachable" });
  });
});

describe("a failure of decode after the commit", () => {
  test("an engine's own nested frame is passed on unchanged, once, with the end mark behind it", async () => {
    const own = 'data: {"error": {"message": "boom", "code": 500, "x": 1}}\n\n';
    const { engine, drain, told } = await relayed();
    engine.push(say("one"), own + own + DONE).end();
    expect(await drain()).toBe(say("one") + own + DONE);
    expect(told.at(-1)).toBe("decode_failed");
  });

  test("flat errors and aborts are turned into the frame that clients raise on", async () => {
    for (const bad of [event({ object: "error", message: "boom", code: 500 }), chunk({}, "abort")]) {
      const { engine, drain } = await relayed();
      engine.push(say("one"), bad);
      const text = await drain();
      expect(text).toStartWith(`${say("one")}data: {"error":{"message":`);
      expect(text).not.toContain('abort"');
      expect(text.match(/"error":\{/g)).toHaveLength(1);
    }
  });

  test("a configured key in an engine's own frame does not get out", async () => {
    const { engine, drain } = await relayed();
    engine.push(say("one"), event({ error: { message: "bad key secret-key", code: 401 } }));
    const text = await drain();
    expect(text).not.toContain("secret-key");
    expect(text).toContain("bad key ***");
  });

  test("a cut, and a clean end without a finish, are decode_failed", async () => {
    for (const how of ["cut", "end"] as const) {
      const { engine, drain, told } = await relayed();
      engine.push(say("one"), say("half").slice(0, 15));
      engine[how]();
      const text = await drain();
      expect(text).toStartWith(`${say("one")}data: {"error":`);
      expect(text).toEndWith(DONE);
      expect(told.at(-1)).toBe("decode_failed");
    }
  });

  test("it does not wait for prefill", async () => {
    const { engine, drain, clock } = await relayed();
    engine.push(say("one"), event({ error: { message: "boom" } }));
    expect(await drain()).toContain("boom");
    expect(clock.timers.size).toBe(0);
  });

  test("an event beyond the limit is failed while it is still coming", async () => {
    const { engine, drain, told } = await relayed({ limits: { eventBytes: 100 } });
    engine.push(say("one"), `data: {"choices":[{"delta":{"content":"${"x".repeat(120)}`);
    expect(await drain()).toContain('"code":"event_too_large"');
    expect(told.at(-1)).toBe("event_too_large");
  });
});

describe("silence", () => {
  test("longer than idleMs is decode_timeout", async () => {
    const { engine, read, drain, clock, told } = await relayed();
    engine.push(say("one"));
    await read();
    const rest = drain();
    await clock.advance(999);
    expect(told).not.toContain("decode_timeout");
    await clock.advance(1);
    expect(JSON.parse((await rest).split("\n")[0]!.slice(6)).error).toMatchObject({
      code: "decode_timeout",
      type: "timeout_error",
    });
  });

  test("comments and halves of events do not break it, though they are passed on", async () => {
    const { engine, read, clock } = await relayed();
    engine.push(say("one"));
    await read();
    const got: (string | undefined)[] = [];
    const reading = (async () => {
      for (let part = await read(); part !== undefined; part = await read()) got.push(part);
    })();
    for (let ping = 0; ping < 3; ping++) {
      await clock.advance(250);
      engine.push(": ping\n\n");
    }
    await clock.advance(200);
    engine.push("data: {");
    await clock.advance(60);
    await reading;
    expect(got.slice(0, 3)).toEqual([": ping\n\n", ": ping\n\n", ": ping\n\n"]);
    expect(got[3]).toContain("decode_timeout");
  });

  test.each(["\n\n", "\r\n\r\n", "event: ping\n\n", "id: 1\n\n", "data\n\n"])(
    "a heartbeat that says nothing does not break it either: %j",
    async (beat) => {
      const { engine, read, drain, clock } = await relayed();
      engine.push(say("one"));
      await read();
      const rest = drain();
      for (let beats = 0; beats < 4; beats++) {
        await clock.advance(240);
        engine.push(beat);
      }
      await clock.advance(60);
      expect(await rest).toContain("decode_timeout");
    },
  );

  test("an event does break it", async () => {
    const { engine, read, clock } = await relayed();
    engine.push(say("0"));
    await read();
    for (let index = 1; index <= 5; index++) {
      const next = read();
      await clock.advance(900);
      engine.push(say(String(index)));
      expect(await next).toBe(say(String(index)));
    }
  });

  test("of a client that does not read is not decode's", async () => {
    const { engine, read, clock, told } = await relayed();
    engine.push(say("one"), say("two"));
    await read();
    await clock.advance(3_600_000);
    expect(told).toEqual(["first event"]);
    expect(await read()).toBe(say("two"));
  });
});

describe("once the finish is out nothing can fail any more", () => {
  const after: [string, "end" | "cut" | "silence", string[]][] = [
    ["a missing end mark", "end", ["mended end_mark", "ended"]],
    ["a cut", "cut", ["mended cut", "ended"]],
    ["silence", "silence", ["mended silence", "ended"]],
  ];
  test.each(after)("%s is completed with the end mark of the API", async (_, how, expected) => {
    const { engine, drain, told, clock } = await relayed({ alone: true });
    engine.push(say("all"), finish());
    const all = drain();
    await settled();
    if (how === "silence") await clock.advance(1_000);
    else engine[how]();
    expect(await all).toBe(say("all") + finish() + DONE);
    expect(told).toEqual(["first event", ...expected]);
    if (how === "silence") expect(engine.closed).toBe(true);
  });

  test("an error event behind it is dropped and counted", async () => {
    const { engine, drain, told } = await relayed({ alone: true });
    engine.push(say("all") + finish() + event({ error: { message: "too late" } }) + USAGE + DONE).end();
    expect(await drain()).toBe(say("all") + finish() + USAGE + DONE);
    expect(told).toContain("mended error_dropped");
  });

  test("messages: a cut after message_delta gets its message_stop", async () => {
    const { engine, drain } = await relayed({ api: "messages", alone: true });
    const typed = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
    const begin = typed("content_block_delta", { index: 0, delta: { type: "text_delta", text: "hi" } });
    const stop = typed("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } });
    engine.push(begin, stop).cut();
    expect(await drain()).toBe(`${begin}${stop}event: message_stop\ndata: {"type":"message_stop"}\n\n`);
  });

  test("responses: nothing is added", async () => {
    const { engine, drain, told } = await relayed({ api: "responses", alone: true });
    const typed = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
    const text =
      typed("response.output_text.delta", { delta: "hi", sequence_number: 0 }) +
      typed("response.completed", { response: { status: "completed" }, sequence_number: 1 });
    engine.push(text).end();
    expect(await drain()).toBe(text);
    expect(told.at(-1)).toBe("ended");
    expect(told.join()).not.toContain("mended");
  });
});

describe("the end of the body", () => {
  test("a last event without its blank line is taken when its data is whole", async () => {
    const { engine, drain } = await relayed({ alone: true });
    engine.push(say("all"), finish(), "data: [DONE]").end();
    expect(await drain()).toBe(say("all") + finish() + DONE);
  });

  test("and dropped when it is not", async () => {
    const { engine, drain, told } = await relayed({ alone: true });
    engine.push(say("all"), finish(), 'data: {"choices":[').end();
    expect(await drain()).toBe(say("all") + finish() + DONE);
    expect(told).toContain("mended end_mark");
  });
});

describe("ending from outside", () => {
  test("a client that leaves ends it at once: nothing more is read or written", async () => {
    const { relay, engine, read, told, clock } = await relayed();
    engine.push(say("one"));
    await read();
    const next = read();
    await settled();
    relay.stop(new ClientGone());
    expect(await next).toBeUndefined();
    expect(told).toEqual(["first event", "gone"]);
    expect(clock.timers.size).toBe(0);
  });

  test("a shutdown is a frame", async () => {
    const { relay, engine, read } = await relayed();
    engine.push(say("one"));
    await read();
    relay.stop(new Failure("shutting_down", { status: 503, stage: "router", message: "The router is shutting down" }));
    const frame = await read();
    expect(frame).toContain('"code":"shutting_down"');
    expect(await read()).toBeUndefined();
  });

  test("whatever happens in whatever order, the client gets whole events, at most one frame, and one end", async () => {
    const moves = [
      "event",
      "half",
      "finish",
      "done",
      "comment",
      "error",
      "cut",
      "end",
      "tail",
      "fail",
      "lose",
      "time",
      "read",
    ] as const;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(...moves), { maxLength: 14 }),
        fc.boolean(),
        async (script, definitive) => {
          const run = await relayed({ options: { lateFailure: definitive ? "definitive" : "any" } });
          const { engine, task, clock, told, commit } = run;
          let got = "";
          let ends = 0;
          let reading = false;
          const readOne = async () => {
            if (reading || ends > 0) return;
            reading = true;
            const part = await run.read();
            reading = false;
            if (part === undefined) ends++;
            else got += part;
          };
          for (const move of [...script, "cut", "tail", "time"] as const) {
            if (move === "event") engine.push(say("x"));
            else if (move === "half") engine.push('data: {"choices":');
            else if (move === "finish") engine.push(finish());
            else if (move === "done") engine.push(DONE);
            else if (move === "comment") engine.push(": ping\n\n");
            else if (move === "error") engine.push(event({ error: { message: "boom" } }));
            else if (move === "cut") engine.cut();
            else if (move === "end") engine.end();
            else if (move === "tail") settlePrefill(task);
            else if (move === "fail") failPrefill(task, "status");
            else if (move === "lose") failPrefill(task, "reset");
            else if (move === "time") await clock.advance(600);
            if (commit.state === "committed") void readOne();
            await settled();
          }
          if (commit.state !== "committed") {
            expect(commit.state).toBeInstanceOf(Failure);
            expect(got).toBe("");
            expect(told.filter((word) => word === "ended" || word.endsWith("_failed"))).toEqual([]);
            return;
          }
          for (let round = 0; round < 40 && ends === 0; round++) {
            void readOne();
            await settled();
          }
          expect(ends).toBe(1);
          expect(got === "" || got.endsWith("\n\n")).toBe(true);
          expect(got.match(/^data: \{"error":\{/gm)?.length ?? 0).toBeLessThanOrEqual(1);
          expect(got.split("\n\n").filter((one) => one === "data: [DONE]")).toHaveLength(1);
          expect(got).toEndWith(DONE);
          expect(clock.timers.size).toBe(0);
        },
      ),
      { numRuns: 150 },
    );
  });
});
