import { expect } from "bun:test";
import { silentScript } from "../../../src/simulator/script.ts";
import { delta, handedOff, json, prefilled, role, stream, whole, words } from "../answers.ts";
import { eventually } from "../client.ts";
import type { Scenario } from "../scenario.ts";

/** The router's own limits, which rule on every runtime; none of the platform's does. Times are those of config.ts. */
export const deadlines: Scenario[] = [
  {
    name: "firstTokenMs: 504 decode_timeout, decode is let go",
    async run({ ask }) {
      const { answer, seen } = ask("sg", { "sg-p": prefilled(), "sg-d": stream([role(), 9_000], "hang") });
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([504, "decode_timeout"]);
      expect(answer.endedAt - answer.startedAt).toBeLessThan(4_000);
      await eventually("decode is closed", () => seen("sg-d")[0]!.leftAt > 0, 2_500);
    },
  },
  {
    name: "connectMs: a worker whose connection never opens is unreachable, long before prefillMs",
    async run({ ask }) {
      const { answer } = ask("no-deaf", {});
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([502, "prefill_unreachable"]);
      expect(answer.endedAt - answer.startedAt).toBeGreaterThan(900);
    },
  },
  {
    name: "idleMs: silence in mid-stream ends with a frame, comments are silence",
    async run({ ask }) {
      const comments = Array.from({ length: 20 }, () => [200, ": still here\n\n"]).flat();
      const { answer } = ask("sg", {
        "sg-p": prefilled(),
        "sg-d": stream([role(), delta("one"), ...comments], "hang"),
      });
      await answer.done();
      expect(JSON.parse(answer.events.at(-2)!).error.code).toBe("decode_timeout");
      const silent = answer.endedAt - answer.pieces.find(({ text }) => text.includes("one"))!.at;
      expect(silent).toBeGreaterThan(900);
      expect(silent).toBeLessThan(3_500);
    },
  },
  {
    name: "prefillMs: 504 prefill_timeout, decode never called",
    async run({ ask }) {
      const { answer, seen } = ask("vl", { "vl-p": silentScript("hang") });
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([504, "prefill_timeout"]);
      await eventually("prefill is closed", () => seen("vl-p")[0]!.leftAt > 0, 2_500);
      expect(seen("vl-d")).toHaveLength(0);
    },
  },
  {
    name: "totalMs: a buffered answer that takes too long is 504",
    async run({ ask }) {
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": json(whole("a", "stop"), 9_000) }, { stream: false });
      await answer.done();
      expect([answer.status, answer.error.code]).toEqual([504, "decode_timeout"]);
    },
  },
  {
    name: "tailMs: a tail that outlives the response is cut then, and its worker is free",
    async run({ ask }) {
      const { answer, seen } = ask("sg", { "sg-p": silentScript("hang"), "sg-d": words("one") });
      await answer.done();
      await eventually("the tail is cut", () => seen("sg-p")[0]!.leftAt > 0, 5_000);
      const outlived = seen("sg-p")[0]!.leftAt - answer.endedAt;
      expect(outlived).toBeGreaterThan(1_200);
    },
  },
  {
    name: "settleMs: the finish waits for prefill, and goes out as soon as it has ended",
    async run({ ask }) {
      const { answer, seen } = ask("sg", { "sg-p": prefilled(150), "sg-d": words("one") });
      await answer.done();
      expect(answer.endedAt).toBeGreaterThanOrEqual(seen("sg-p")[0]!.endedAt - 20);
      expect(seen("sg-p")[0]!.endedAt).toBeGreaterThan(0);
    },
  },
  {
    name: "settleMs: past it the finish goes out without prefill",
    async run({ ask }) {
      const { answer, seen } = ask("sg", { "sg-p": silentScript("hang"), "sg-d": words("one") });
      await answer.done();
      expect(answer.events.at(-1)).toBe("[DONE]");
      expect(seen("sg-p")[0]!.leftAt).toBe(0);
      expect(answer.endedAt - answer.startedAt).toBeGreaterThan(500);
    },
  },
];
