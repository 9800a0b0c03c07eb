import { expect } from "bun:test";
import { DONE, delta, failing, handedOff, prefilled, role, stream, words } from "../answers.ts";
import { eventually, sleep } from "../client.ts";
import type { Scenario } from "../scenario.ts";
import { textOf } from "./answers.ts";

const EVENT = 65_536;

/** One event of `bytes` bytes. */
export function bigEvent(bytes: number): string {
  const frame = delta("").length + '"content":""'.length;
  return delta("x".repeat(Math.max(1, bytes - frame)));
}

/** Amounts, speeds and crowds. */
export const flow: Scenario[] = [
  {
    name: "a client that does not read stops decode, and its pause is not decode's silence",
    async run({ ask }) {
      let written = 0;
      // Far more than all the buffers on the way may hold: two sockets, each side's, and the runtime's own (9 to 13 MiB in all).
      const total = 1_024;
      const much = (async function* () {
        yield { bytes: role() };
        for (let i = 0; i < total; i++) {
          written += EVENT;
          yield { bytes: bigEvent(EVENT) };
        }
        yield { bytes: delta("", "stop") + DONE };
      })();
      const { answer } = ask("sg", { "sg-p": prefilled(), "sg-d": { ...stream([]), steps: much } });
      await answer.until(() => answer.text.length > 200_000);
      answer.pause();
      // Longer than idleMs.
      await sleep(1_500);
      const held = written;
      expect(held).toBeLessThan(24 * 1_048_576);
      answer.resume();
      await answer.done();
      expect(answer.events.at(-1)).toBe("[DONE]");
      expect(textOf(answer.events).length).toBeGreaterThan(total * (EVENT - 1_000));
    },
  },
  {
    name: "over HTTP/1.0 a stream is not in chunks, and ends with its connection",
    // workerd itself puts it into chunks.
    except: ["workerd"],
    async run({ ask }) {
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": words("a", "b") }, { version: "1.0" });
      await answer.done();
      expect([answer.status, answer.headers.has("transfer-encoding"), answer.ending]).toEqual([200, false, "clean"]);
      expect([textOf(answer.events), answer.events.at(-1)]).toEqual(["ab", "[DONE]"]);
    },
  },
  {
    name: "a thousand small events arrive, none lost, none twice",
    async run({ ask }) {
      const said = Array.from({ length: 1_000 }, (_, i) => `w${i} `);
      const { answer } = ask("vl", { "vl-p": handedOff(), "vl-d": words(...said) });
      await answer.done();
      expect(textOf(answer.events)).toBe(said.join(""));
    },
  },
  {
    name: "160 requests side by side, good, failing and left by their clients: each gets what is its own, no worker stays loaded",
    async run({ ask, get }) {
      const kinds = 8;
      const all = Array.from({ length: 160 }, async (_, i) => {
        const word = `answer-${i}`;
        await sleep((i % 40) * 10);
        const pause = (i * 37) % 200;
        switch (i % kinds) {
          case 0: {
            const { answer } = ask("sg", { "sg-p": failing(500, word, [], pause), "sg-d": stream([9_000], "hang") });
            await answer.done();
            expect([answer.status, answer.error.message]).toEqual([500, word]);
            return;
          }
          case 1: {
            const { answer } = ask("sg", {
              "sg-p": prefilled(pause),
              "sg-d": stream([role(), delta(word), 9_000], "hang"),
            });
            await answer.saw(word);
            answer.leave();
            return;
          }
          case 2: {
            const { answer } = ask("vl", {
              "vl-p": handedOff(pause),
              "vl-d": stream([role(), delta(word), () => answer.saw(word)], "fin"),
            });
            await answer.done();
            expect(textOf(answer.events.filter((data) => !data.includes('"error"')))).toBe(word);
            expect(answer.text).toContain("decode_failed");
            return;
          }
          default: {
            const plays = {
              "sg-p": prefilled(pause),
              "sg-d": words(pause, word),
              "vl-p": handedOff(pause),
              "vl-d": words(word),
            };
            const { answer } = ask(i % 2 === 0 ? "sg" : "vl", plays);
            await answer.done();
            expect([answer.status, textOf(answer.events)]).toEqual([200, word]);
          }
        }
      });
      await Promise.all(all);
      await eventually("no worker is loaded, no request in progress", async () => !(await loaded(get)), 8_000);
    },
  },
];

/** Whether a scrape shows a worker with legs. Other scenarios run beside this one, and end. */
async function loaded(get: (path: string) => Promise<{ text: string }>): Promise<boolean> {
  const { text } = await get("/metrics");
  const gauges = [...text.matchAll(/^prefill_router_(?:worker_in_flight|requests_in_progress)(?:\{.*\})? (\d+)$/gm)];
  if (gauges.length === 0) throw new Error("No gauge of the workers' load");
  return gauges.some(([, value]) => Number(value) > 0);
}
