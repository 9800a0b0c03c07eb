import { expect } from "bun:test";
import { silentScript } from "../../../src/simulator/script.ts";
import { DONE, delta, failing, prefilled, role, stream, words } from "../answers.ts";
import { Exchange, eventually } from "../client.ts";
import { KEYS } from "../config.ts";
import type { Scenario } from "../scenario.ts";
import { textOf } from "./answers.ts";

/** The router as one would run it: keys, retries, comments, probes. */
export const lively: Scenario[] = [
  {
    name: "keys: without one 401, with a wrong one 401, the right one is served and not passed on",
    async run({ askLively, lively }) {
      const body = '{"model":"sg","messages":[]}';
      const none = await new Exchange(lively, { body }).done();
      const wrong = await new Exchange(lively, { body, headers: { "x-api-key": "nope" } }).done();
      expect([none.status, wrong.status, wrong.error.code]).toEqual([401, 401, "unauthorized"]);
      const all = Array.from({ length: 6 }, async () => {
        const { answer, seen } = askLively("sg", { "sg-p": prefilled(), "sg-d": words("in") });
        await answer.done();
        expect(textOf(answer.events)).toBe("in");
        for (const leg of seen()) expect(leg.headers.get("authorization")).toBeNull();
      });
      await Promise.all(all);
    },
  },
  {
    name: "a prefill that resets is tried again on another worker, with fresh ids, and the client sees nothing of it",
    async run({ askLively }) {
      let first: string | undefined;
      const prefill = (name: string) => () => {
        first ??= name;
        return first === name ? silentScript("rst") : prefilled();
      };
      const { answer, seen } = askLively("two", {
        "r1-p": prefill("r1-p"),
        "r2-p": prefill("r2-p"),
        "r-d": words(300, "ok"),
      });
      await answer.done();
      expect([answer.status, textOf(answer.events)]).toEqual([200, "ok"]);
      const rooms = seen().map(({ body }) => /"bootstrap_room":(\d+)/.exec(body)?.[1]);
      expect(new Set(rooms).size).toBe(2);
      expect(seen("r1-p").length + seen("r2-p").length).toBe(2);
    },
  },
  {
    name: "keepAliveMs: comments while decode thinks, then the answer",
    async run({ askLively }) {
      const { answer } = askLively("sg", {
        "sg-p": prefilled(),
        "sg-d": stream([800, role(), delta("late"), delta("", "stop"), DONE]),
      });
      await answer.done();
      expect(answer.status).toBe(200);
      expect(answer.text.match(/^: .*$/gm)!.length).toBeGreaterThanOrEqual(2);
      expect(textOf(answer.events)).toBe("late");
    },
  },
  {
    name: "keepAliveMs: a failure after the first comment is a frame",
    async run({ askLively }) {
      const { answer } = askLively("sg", {
        "sg-p": async () => (await answer.head()) && failing(400, "too long"),
        "sg-d": silentScript("hang"),
      });
      await answer.done();
      expect([answer.status, answer.events.at(-1)]).toEqual([200, "[DONE]"]);
      expect(JSON.parse(answer.events.at(-2)!).error.message).toBe("too long");
    },
  },
  {
    name: "eleven silent seconds in mid-stream cut nothing (B66)",
    async run({ askLively }) {
      const { answer } = askLively("sg", {
        "sg-p": prefilled(),
        "sg-d": stream([role(), delta("before "), 11_000, delta("after"), delta("", "stop"), DONE]),
      });
      await answer.until(() => answer.ending !== undefined, 15_000);
      expect(textOf(answer.events)).toBe("before after");
      expect(answer.ending).toBe("clean");
    },
  },
  {
    name: "eleven silent seconds before a buffered answer cut nothing (B66)",
    async run({ askLively }) {
      const { answer } = askLively(
        "sg",
        { "sg-p": prefilled(11_000), "sg-d": { ...words("x"), headDelayMs: 11_000 } },
        { stream: true },
      );
      await answer.until(() => answer.ending !== undefined, 15_000);
      expect(textOf(answer.events)).toBe("x");
    },
  },
  {
    name: "probes: a worker that answers its probes with 500 makes /ready 503, and comes back",
    async run({ engines, get, lively }) {
      engines.health.set("agg", 500);
      await eventually("not ready", async () => (await get("/ready", lively)).status === 503, 6_000);
      engines.health.delete("agg");
      await eventually("ready", async () => (await get("/ready", lively)).status === 200, 6_000);
    },
  },
  {
    name: "the admin key opens /workers, a client's does not",
    async run({ get, lively }) {
      const admin = await get("/workers", lively, { authorization: `Bearer ${KEYS.ADMIN_KEY}` });
      expect(admin.status).toBe(200);
      const client = await get("/workers", lively, { authorization: `Bearer ${KEYS.TEAM_KEY}` });
      expect(client.status).toBe(403);
    },
  },
];
