import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { silentScript } from "../../src/simulator/script.ts";
import { DONE, delta, prefilled, role, stream } from "./answers.ts";
import { Exchange, eventually, sleep } from "./client.ts";
import { plainConfig } from "./config.ts";
import { Engines } from "./engines.ts";
import { startRouter } from "./process.ts";
import { makeStage } from "./run.ts";
import { textOf } from "./scenarios/answers.ts";

/** What SIGTERM does, on the runtimes that have a process to end. `shutdownMs` is 1500 here. */
describe.each(["bun", "deno", "node"] as const)("SIGTERM on %s", (runtime) => {
  const engines = new Engines();
  beforeAll(async () => void (await engines.start()));
  afterAll(() => engines.stop());

  test("running streams end well, new requests are turned away, the exit code is 0", async () => {
    const router = await startRouter(runtime, plainConfig(engines));
    try {
      const { ask } = makeStage(runtime, engines, router.port, router.port);
      const kept = new Exchange(router.port, { method: "GET", path: "/ready" });
      await kept.done();
      const { answer, seen } = ask("sg", {
        "sg-p": prefilled(900),
        "sg-d": stream([role(), delta("before "), 600, delta("after"), delta("", "stop"), DONE]),
      });
      await answer.saw("before");
      router.signal("SIGTERM");
      await sleep(150);
      const late = await new Exchange(router.port, { body: '{"model":"sg","messages":[]}' }).done();
      // Refused by the router, or by a socket that no longer listens.
      if (late.status !== 0) expect([late.status, late.error.code]).toEqual([503, "shutting_down"]);
      await answer.done();
      expect([textOf(answer.events), answer.ending]).toEqual(["before after", "clean"]);
      expect(await router.exited).toBe(0);
      // The drain was waited for too.
      expect(seen("sg-p")[0]!.endedAt).toBeGreaterThan(0);
      expect(router.stderr).toBe("");
    } finally {
      await router.stop();
    }
  });

  test("a stream that takes too long ends with an error frame, and the exit code is 0", async () => {
    const router = await startRouter(runtime, plainConfig(engines));
    try {
      const { ask } = makeStage(runtime, engines, router.port, router.port);
      const more = Array.from({ length: 30 }, () => [300, delta("x")]).flat();
      const { answer, seen } = ask("sg", {
        "sg-p": silentScript("hang"),
        "sg-d": stream([role(), delta("one"), ...more]),
      });
      await answer.saw("one");
      const from = performance.now();
      router.signal("SIGTERM");
      await answer.done();
      expect(JSON.parse(answer.events.at(-2)!).error.code).toBe("shutting_down");
      expect([answer.events.at(-1), answer.ending]).toEqual(["[DONE]", "clean"]);
      expect(await router.exited).toBe(0);
      expect(performance.now() - from).toBeLessThan(4_000);
      await eventually("both legs are closed", () => seen().every(({ leftAt }) => leftAt > 0), 1_000);
    } finally {
      await router.stop();
    }
  });

  test("a bad configuration: exit code 1, the field is named, nothing listens", async () => {
    const bad = { ...plainConfig(engines), nope: 1 };
    await expect(startRouter(runtime, bad)).rejects.toThrow(/exit code 1 .*nope/s);
  });
});
