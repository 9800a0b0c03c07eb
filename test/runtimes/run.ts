import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Exchange } from "./client.ts";
import { KEYS, livelyConfig, plainConfig } from "./config.ts";
import { Engines, type Plays } from "./engines.ts";
import { type RouterProcess, startRouter } from "./process.ts";
import type { AskOptions, RuntimeName, Scenario, Stage } from "./scenario.ts";
import { answers } from "./scenarios/answers.ts";
import { deadlines } from "./scenarios/deadlines.ts";
import { failures } from "./scenarios/failures.ts";
import { flow } from "./scenarios/flow.ts";
import { leaving } from "./scenarios/leaving.ts";
import { lively } from "./scenarios/lively.ts";
import { rewriting } from "./scenarios/rewriting.ts";
import { shapes } from "./scenarios/shapes.ts";

/** Every promise, the same on every runtime. */
const SCENARIOS: readonly Scenario[] = [
  ...lively,
  ...answers,
  ...rewriting,
  ...failures,
  ...leaving,
  ...deadlines,
  ...shapes,
  ...flow,
];

/** Requests of a dead context, work that was killed, streams nobody closed: what workerd and the others say when something is wrong. */
const COMPLAINTS = /different request|hung|never generate|unhandled|uncaught|waitUntil|warning|deprecat|\bTypeError\b/i;

/** workerd itself tells of each client that has reset its connection, with a stack of addresses. */
const NOISE = /^workerd\/server\/server\.c\+\+:\d+: error: .* disconnected: |^stack: /;

/** Runs all scenarios against real processes of one runtime, side by side. */
export function runScenarios(runtime: RuntimeName): void {
  describe(runtime, () => {
    const engines = new Engines();
    let plain: RouterProcess;
    let busy: RouterProcess;
    let stage: Stage;

    beforeAll(async () => {
      await engines.start();
      [plain, busy] = await Promise.all([
        startRouter(runtime, plainConfig(engines)),
        startRouter(runtime, livelyConfig(engines)),
      ]);
      stage = makeStage(runtime, engines, plain.port, busy.port);
    }, 30_000);

    afterAll(async () => {
      await Promise.all([plain?.stop(), busy?.stop()]);
      await engines.stop();
    });

    for (const { name, except = [], run } of SCENARIOS) {
      test.concurrent.skipIf(except.includes(runtime))(name, () => run(stage), 30_000);
    }

    test("nothing was complained about", () => {
      for (const { stdout, stderr } of [plain, busy]) {
        expect(stderr.split("\n").filter((line) => line !== "" && !NOISE.test(line))).toEqual([]);
        expect(stdout.split("\n").filter((line) => COMPLAINTS.test(line))).toEqual([]);
        expect(stdout).not.toMatch(/"event":"internal"/);
        for (const key of Object.values(KEYS)) expect(stdout).not.toContain(key);
      }
    });
  });
}

export function makeStage(runtime: RuntimeName, engines: Engines, plain: number, busy: number): Stage {
  const sender = (port: number, extra: Record<string, string>): Stage["ask"] =>
    function ask(model, plays: Plays, options: AskOptions = {}) {
      const { stream = true, path = "/v1/chat/completions", method, headers, version, more = {}, prompt } = options;
      const tag = engines.scenario(plays);
      const said = prompt ?? { messages: '[{"role":"user","content":"$TAG"}]' };
      const members = [`"model":"${model}"`, `"stream":${stream}`];
      for (const [name, text] of Object.entries({ ...said, ...more })) {
        members.push(`"${name}":${text.replaceAll("$TAG", tag)}`);
      }
      const sent = { path, headers: { ...extra, ...headers }, body: `{${members.join(",")}}` };
      const answer = new Exchange(port, {
        ...sent,
        ...(method === undefined ? {} : { method }),
        ...(version === undefined ? {} : { version }),
      });
      return { answer, seen: (engine) => engines.seen(tag, engine) };
    };
  return {
    runtime,
    engines,
    plain,
    lively: busy,
    ask: sender(plain, {}),
    askLively: sender(busy, { authorization: `Bearer ${KEYS.TEAM_KEY}` }),
    get: (path, port = plain, headers = {}) => new Exchange(port, { method: "GET", path, headers }).done(),
  };
}
