import { expect, test } from "bun:test";
import { ScriptedEngine } from "./engine.ts";
import { type Ending, judge } from "./oracle.ts";
import { prefillAnswer } from "./prefill-answers.ts";
import { ask } from "./raw-client.ts";
import { startRouter } from "./router-process.ts";
import { eventually } from "./served-router.ts";
import { answerBody, answerEvents, paths, requestBody } from "./streams.ts";

const api = "chat";
/** `FAULTS_DRAINS=3000` for more. */
const REQUESTS = Number(process.env.FAULTS_DRAINS ?? 1_000);

test(`${REQUESTS} prefill tails that outlive their responses are all read to their end: load resets no healthy prefill`, async () => {
  const events = answerEvents(api);
  const done = Promise.withResolvers<void>();
  const prefill = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "application/json");
    await wire.until(done.promise);
    await wire.chunk(prefillAnswer("sglang", api));
    await wire.end();
  });
  const decode = await ScriptedEngine.start(async (wire) => {
    await wire.head(200, "text/event-stream");
    for (const { bytes } of events) await wire.chunk(bytes);
    await wire.end();
  });
  // A process of its own: Bun's cap on outgoing requests (256) is lifted at the start of one, which the command line does.
  const router = await startRouter(prefill.url, decode.url, { settleMs: 0, tailMs: 60_000 });
  try {
    const endings: Record<Ending, number> = { well: 0, status: 0, frame: 0 };
    let next = 0;
    async function work(): Promise<void> {
      while (next++ < REQUESTS) {
        const seen = await ask({ port: router.port, path: paths[api], body: requestBody(api, true) });
        const delivered = events.length;
        const expected = {
          api,
          stream: true,
          mayEndWell: true,
          mayFail: false,
          as: "status",
          body: answerBody(api),
        } as const;
        endings[judge(seen, { ...expected, events, delivered })]++;
      }
    }
    await Promise.all(Array.from({ length: 50 }, work));
    expect(endings.well).toBe(REQUESTS);
    // All tails at once, each on a socket of its own.
    expect(prefill.open).toBe(REQUESTS);
    done.resolve();
    await eventually(20_000, () => (prefill.open === 0 ? "" : `${prefill.open} tails are not read`));
    expect(prefill.exchanges.filter(({ over }) => !over)).toHaveLength(0);
    await router.rests(5_000);
    expect(await router.metric("worker_breaker_state")).toBe(0);
  } finally {
    done.resolve();
    await router.stop();
    await Promise.all([prefill.close(), decode.close()]);
  }
}, 60_000);
