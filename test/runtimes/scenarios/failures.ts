import { expect } from "bun:test";
import { type Script, silentScript } from "../../../src/simulator/script.ts";
import {
  context,
  DONE,
  delta,
  event,
  failing,
  handedOff,
  json,
  prefilled,
  role,
  stream,
  whole,
  words,
} from "../answers.ts";
import type { Exchange } from "../client.ts";
import { eventually, sleep } from "../client.ts";
import type { Play } from "../engines.ts";
import type { Scenario } from "../scenario.ts";

/** One error frame, the end mark, a clean end, and nothing that a client could take for success. */
function expectFrame(answer: Exchange, code: string | number, message: string): void {
  const errors = answer.events.filter((data) => data.includes('"error"'));
  expect(errors).toHaveLength(1);
  const { error } = JSON.parse(errors[0]!);
  expect(error.message).toContain(message);
  expect(error.code).toBe(code);
  expect(answer.events.at(-1)).toBe("[DONE]");
  expect(answer.ending).toBe("clean");
  expect(answer.text).not.toContain('"finish_reason":"stop"');
}

/** A play that waits: order by what has happened, not by time. */
function after(event: () => Promise<unknown>, script: Script): Play {
  return async function waiting() {
    await event();
    return script;
  };
}

/** Failures of either leg, before and after the status is committed. */
export const failures: Scenario[] = [
  {
    name: "prefill fails while decode streams: one error frame, decode is let go at once",
    async run({ ask }) {
      const { answer, seen } = ask("sg", {
        "sg-p": after(() => answer.saw("one"), failing(500, "KV transfer failed")),
        "sg-d": stream([role(), delta("one"), 5_000], "hang"),
      });
      await answer.done();
      expect(answer.status).toBe(200);
      expectFrame(answer, 500, "KV transfer failed");
      await eventually("decode's socket is closed", () => seen("sg-d")[0]!.leftAt > 0, 2_000);
      expect(seen("sg-d")[0]!.leftAt - seen("sg-p")[0]!.endedAt).toBeLessThan(1_000);
    },
  },
  {
    name: "prefill aborts inside a 200 while decode's finish is held: the finish never goes out",
    async run({ ask }) {
      const { answer, seen } = ask("sg", {
        "sg-p": after(
          () => eventually("decode is done", () => (seen("sg-d")[0]?.endedAt ?? 0) > 0),
          json(whole("A", "abort"), 50),
        ),
        "sg-d": words("one", 20),
      });
      await answer.done();
      expect(answer.text).toContain("one");
      expectFrame(answer, "prefill_failed", "");
    },
  },
  {
    name: "prefill's connection is reset in mid-stream: a frame",
    async run({ ask }) {
      const { answer } = ask("sg", {
        "sg-p": after(() => answer.saw("one"), silentScript("rst")),
        "sg-d": stream([role(), delta("one"), 5_000], "hang"),
      });
      await answer.done();
      expectFrame(answer, "prefill_unreachable", "prefill");
    },
  },
  {
    name: "prefill refuses before decode has said anything: its status and message, as JSON, and decode is let go",
    async run({ ask }) {
      const { answer, seen } = ask("sg", {
        "sg-p": failing(400, "prompt has 40961 tokens, limit 40960", [], 20),
        "sg-d": silentScript("hang"),
      });
      await answer.done();
      expect([answer.status, answer.headers.get("content-type")]).toEqual([400, "application/json"]);
      expect(answer.error.message).toBe("prompt has 40961 tokens, limit 40960");
      expect(answer.headers.get("x-router-error-code")).toBe("prefill_failed");
      await eventually("decode's socket is closed", () => seen("sg-d")[0]!.leftAt > 0, 2_000);
    },
  },
  {
    name: "decode's own error frame passes once, unchanged, and prefill is let go",
    async run({ ask }) {
      const frame = event(
        '{"error":{"message":"engine is dead","type":"InternalServerError","param":null,"code":500}}',
      );
      const { answer, seen } = ask("sg", {
        "sg-p": silentScript("hang"),
        "sg-d": stream([role(), delta("one"), 50, frame, DONE]),
      });
      await answer.done();
      expect(answer.text).toEndWith(frame + DONE);
      expectFrame(answer, 500, "engine is dead");
      await eventually("prefill's socket is closed", () => seen("sg-p")[0]!.leftAt > 0, 2_000);
    },
  },
  {
    name: "decode is cut in mid-stream: a frame and a clean end",
    async run({ ask }) {
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": stream([role(), delta("one"), 50], "fin") });
      await answer.done();
      expectFrame(answer, "decode_failed", "decode");
    },
  },
  {
    name: "decode is reset in the middle of an event: no half event before the frame",
    async run({ ask }) {
      const { answer } = ask("vl", {
        "vl-p": handedOff(),
        // A reset throws away what the router has not read yet.
        "vl-d": stream([role(), delta("one"), delta("two").slice(0, 20), () => answer.saw("one"), 50], "rst"),
      });
      await answer.done();
      expectFrame(answer, "decode_failed", "decode");
      for (const data of answer.events) if (data !== "[DONE]") JSON.parse(data);
    },
  },
  {
    name: "decode forgets its end mark after the finish: it is added",
    async run({ ask }) {
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": stream([role(), delta("one"), delta("", "stop")]) });
      await answer.done();
      expect(answer.events.at(-1)).toBe("[DONE]");
      expect(answer.text).not.toContain('"error"');
    },
  },
  {
    name: "decode answers 200, a role chunk, then an error: the client gets a real status",
    async run({ ask }) {
      const frame = event('{"error":{"message":"pull failed","type":"InternalServerError","param":null,"code":500}}');
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": stream([role(), 50, frame, DONE]) });
      await answer.done();
      expect([answer.status, answer.error.message]).toEqual([500, "pull failed"]);
      expect(answer.headers.get("content-type")).toBe("application/json");
    },
  },
  {
    name: "decode's 503 keeps its status, message and Retry-After",
    async run({ ask }) {
      const { answer } = ask("sg", {
        "sg-p": prefilled(400),
        "sg-d": failing(503, "out of KV", [["retry-after", "7"]]),
      });
      await answer.done();
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "7"]);
      expect(answer.error.message).toBe("out of KV");
    },
  },
  {
    name: "an engine's error that is no JSON becomes one",
    async run({ ask }) {
      const { answer } = ask("tr", { "tr-p": { ...json("upstream exploded"), status: 500 } });
      await answer.done();
      expect([answer.status, answer.error.code, answer.error.stage]).toEqual([500, "prefill_failed", "prefill"]);
    },
  },
  {
    name: "a prefill answer without a usable hand-off never reaches decode",
    async run({ ask }) {
      const { answer, seen } = ask("vl", {
        "vl-p": handedOff(0, '{"do_remote_prefill":true,"remote_block_ids":null}'),
      });
      await answer.done();
      expect([answer.status, answer.error.code, answer.error.stage]).toEqual([502, "invalid_handoff", "handoff"]);
      expect(seen("vl-d")).toHaveLength(0);
    },
  },
  {
    name: "prefill cannot be reached: 502 at once, decode is let go",
    async run({ ask }) {
      const { answer, seen } = ask("no-prefill", { "sg-d": silentScript("hang") });
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([502, "prefill_unreachable"]);
      expect(answer.endedAt - answer.startedAt).toBeLessThan(2_000);
      await eventually("decode's socket is closed", () => seen("sg-d").every(({ leftAt }) => leftAt > 0), 2_000);
    },
  },
  {
    name: "decode cannot be reached: 502 at once, prefill is let go",
    async run({ ask }) {
      const { answer, seen } = ask("no-decode", { "sg-p": silentScript("hang") });
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([502, "decode_unreachable"]);
      expect(answer.endedAt - answer.startedAt).toBeLessThan(2_000);
      await eventually("prefill's socket is closed", () => seen("sg-p").every(({ leftAt }) => leftAt > 0), 2_000);
    },
  },
  {
    name: "a prefill tail that fails after the response is over hurts nobody",
    async run({ ask, get }) {
      const { answer, seen } = ask("sg", {
        "sg-p": after(() => answer.done(), failing(500, "too late")),
        "sg-d": words("one"),
      });
      await answer.done();
      expect(answer.events.at(-1)).toBe("[DONE]");
      expect(answer.text).not.toContain("too late");
      await eventually("prefill was read to its end", () => seen("sg-p")[0]!.endedAt > 0, 1_500);
      expect((await get("/health")).status).toBe(200);
    },
  },
  {
    name: "messages: an error frame in Anthropic's shape",
    async run({ ask }) {
      const sent = [
        event('{"type":"message_start","message":{}}', "message_start"),
        event(
          '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}',
          "content_block_delta",
        ),
      ];
      const options = { path: "/v1/messages", more: { max_tokens: "5" } };
      const { answer } = ask(
        "sg",
        { "sg-p": after(() => answer.saw("hi"), failing(500, "no KV")), "sg-d": stream([...sent, 5_000]) },
        options,
      );
      await answer.done();
      expect(answer.text).toContain("event: error\ndata: ");
      const frame = JSON.parse(answer.events.at(-1)!);
      expect([frame.type, frame.error.message]).toEqual(["error", "no KV"]);
    },
  },
  {
    name: "a leg is never sent twice: a kept-alive socket that breaks is a failure, not a second request",
    async run({ ask, runtime }) {
      const good = { "once-p": prefilled(), "once-d": words("a") };
      // Some sockets stay open in the pool; the next request on one of them is reset before any byte of an answer.
      for (let round = 0; round < 3; round++) await ask("once", good).answer.done();
      await sleep(50);
      const { answer, seen } = ask("once", { "once-p": silentScript("hang"), "once-d": silentScript("rst") });
      await answer.done();
      expect([runtime, seen("once-d").length, seen("once-p").length]).toEqual([runtime, 1, 1]);
      expect([answer.status, answer.error.code]).toEqual([502, "decode_unreachable"]);
    },
  },
  {
    name: "trtllm: context's flat error keeps its message",
    async run({ ask }) {
      const flat = {
        ...json('{"object":"error","message":"bad sampling","type":"BadRequestError","code":400}'),
        status: 400,
      };
      const { answer, seen } = ask("tr", { "tr-p": flat, "tr-d": context() });
      await answer.done();
      expect([answer.status, answer.error.message]).toEqual([400, "bad sampling"]);
      expect(seen("tr-d")).toHaveLength(0);
    },
  },
];
