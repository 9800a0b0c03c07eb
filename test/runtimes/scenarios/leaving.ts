import { expect } from "bun:test";
import { silentScript } from "../../../src/simulator/script.ts";
import { DONE, delta, handedOff, json, prefilled, role, stream, whole } from "../answers.ts";
import { Exchange, eventually, sleep } from "../client.ts";
import { patientConfig } from "../config.ts";
import { startRouter } from "../process.ts";
import type { Scenario, Stage } from "../scenario.ts";
import { bigEvent } from "./flow.ts";

/** On a router whose deadlines are far away: what closes the legs is that the client has gone. `unnoticedMs`: so long they stay open. */
async function leaveInSilence({ runtime, engines }: Stage, then: (string | number)[], unnoticedMs = 0): Promise<void> {
  const router = await startRouter(runtime, patientConfig(engines));
  try {
    const tag = engines.scenario({
      "sg-p": silentScript("hang"),
      "sg-d": stream([role(), delta("one"), ...then], "hang"),
    });
    const body = `{"model":"sg","stream":true,"messages":[{"role":"user","content":"${tag}"}]}`;
    const answer = new Exchange(router.port, { body });
    await answer.saw("one");
    answer.leave("fin");
    await sleep(unnoticedMs);
    if (unnoticedMs > 0) expect(engines.seen(tag).map(({ leftAt }) => leftAt)).toEqual([0, 0]);
    await eventually("both legs are closed", () => engines.seen(tag).every(({ leftAt }) => leftAt > 0), 2_500);
  } finally {
    await router.stop();
  }
}

/** Clients that leave, at each stage: both engines must be free again. */
export const leaving: Scenario[] = [
  {
    name: "a client leaves before anything was answered: both legs are closed at once",
    async run({ ask }) {
      const { answer, seen } = ask("sg", { "sg-p": silentScript("hang"), "sg-d": silentScript("hang") });
      await eventually("both legs are there", () => seen().length === 2);
      answer.leave();
      await eventually("both legs are closed", () => seen().every(({ leftAt }) => leftAt > 0), 2_500);
    },
  },
  {
    name: "a client leaves in order (FIN) in mid-stream and silence: both legs are closed at once",
    // It hears of a FIN only when it writes.
    except: ["workerd"],
    run: (stage) => leaveInSilence(stage, [9_000]),
  },
  {
    name: "workerd: a client that leaves in order (FIN) in silence is noticed when bytes come again, and not before",
    except: ["bun", "deno", "node"],
    run: (stage) => leaveInSilence(stage, [2_500, delta("two"), 300, delta("three"), 9_000], 2_000),
  },
  {
    name: "a client leaves in order (FIN) before an answer, while comments go out (keepAliveMs): both legs are closed",
    async run({ askLively }) {
      const { answer, seen } = askLively("sg", { "sg-p": silentScript("hang"), "sg-d": silentScript("hang") });
      await answer.saw(": keep-alive");
      answer.leave("fin");
      await eventually("both legs are closed", () => seen().every(({ leftAt }) => leftAt > 0), 2_500);
    },
  },
  {
    name: "a client resets while decode sends as fast as it can: decode is closed and was not drained (B04)",
    async run({ ask }) {
      let written = 0;
      const endless = (async function* () {
        yield { bytes: role() };
        for (;;) {
          written += 65_536;
          yield { bytes: bigEvent(65_536) };
        }
      })();
      const { answer, seen } = ask("sg", { "sg-p": prefilled(), "sg-d": { ...stream([]), steps: endless } });
      await answer.until(() => answer.text.length > 1_000_000);
      answer.leave();
      await eventually("decode is closed", () => seen("sg-d")[0]!.leftAt > 0, 2_500);
      const atClose = written;
      await sleep(100);
      expect(written).toBe(atClose);
    },
  },
  {
    name: "vllm: a client leaves while prefill computes: prefill is closed, decode never called",
    async run({ ask }) {
      const { answer, seen } = ask("vl", { "vl-p": silentScript("hang") });
      await eventually("prefill is there", () => seen("vl-p").length === 1);
      answer.leave();
      await eventually("prefill is closed", () => seen("vl-p")[0]!.leftAt > 0, 2_500);
      await sleep(100);
      expect(seen("vl-d")).toHaveLength(0);
    },
  },
  {
    name: "vllm: a client leaves while decode has the hand-off: decode is closed after its first event, 2 s at the latest",
    async run({ ask }) {
      const { answer, seen } = ask("vl", { "vl-p": handedOff(), "vl-d": silentScript("hang") });
      await eventually("decode is there", () => seen("vl-d").length === 1);
      const left = performance.now();
      answer.leave();
      await eventually("decode is closed", () => seen("vl-d")[0]!.leftAt > 0, 5_000);
      expect(seen("vl-d")[0]!.leftAt - left).toBeGreaterThan(500);
    },
  },
  {
    name: "a client that waits for a buffered answer leaves: both legs are closed",
    async run({ ask }) {
      const { answer, seen } = ask(
        "sg",
        { "sg-p": silentScript("hang"), "sg-d": json(whole("x", "stop"), 9_000) },
        { stream: false },
      );
      await eventually("both legs are there", () => seen().length === 2);
      answer.leave();
      await eventually("both legs are closed", () => seen().every(({ leftAt }) => leftAt > 0), 2_500);
    },
  },
  {
    name: "a client that leaves with its whole answer does not cut the prefill tail",
    async run({ ask }) {
      const { answer, seen } = ask("sg", {
        "sg-p": prefilled(900),
        "sg-d": stream([role(), delta("x"), delta("", "stop"), DONE]),
      });
      await answer.done();
      await eventually("prefill was read to its end", () => seen("sg-p")[0]!.endedAt > 0, 2_000);
      expect(seen("sg-p")[0]!.leftAt).toBe(0);
    },
  },
  {
    name: "a client leaves before its body is complete: no engine hears of it",
    async run({ engines, plain, get }) {
      const tag = engines.scenario({ "sg-p": prefilled(), "sg-d": silentScript("hang") });
      const answer = new Exchange(plain, {
        headers: { "content-length": "500" },
        raw: `{"model":"sg","messages":["${tag}"`,
      });
      await sleep(100);
      answer.leave();
      await sleep(150);
      expect(engines.seen(tag)).toHaveLength(0);
      expect((await get("/health")).status).toBe(200);
    },
  },
];
