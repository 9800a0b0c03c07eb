import { expect, test } from "bun:test";
import { ScriptedEngine } from "./engine.ts";
import { type Ending, judge } from "./oracle.ts";
import { ask } from "./raw-client.ts";
import { atRest, serveRouter, stopAll } from "./served-router.ts";
import { answerBody, answerEvents, paths, requestBody } from "./streams.ts";

/**
 * The one place where good and bad are a matter of microseconds: prefill's tail breaks in the very tick in which decode ends. Both outcomes
 * are right; a mixture of the two never is.
 */
test.each([
  { settleMs: 0, lateFailure: "any" },
  { settleMs: 5, lateFailure: "any" },
  { settleMs: 300, lateFailure: "any" },
  { settleMs: 300, lateFailure: "definitive" },
] as const)(
  "a tail that breaks in the tick of decode's end gives the whole answer or one failure, never both ($settleMs ms, $lateFailure)",
  async ({ settleMs, lateFailure }) => {
    const api = "chat";
    const events = answerEvents(api);
    const ends = new Map<string, () => void>();
    const prefill = await ScriptedEngine.start(async (wire, { request }) => {
      await wire.head(200, "application/json");
      await wire.until(new Promise<void>((resolve) => ends.set(request.headers.get("x-request-id") ?? "", resolve)));
      await wire.rst(0);
    });
    const decode = await ScriptedEngine.start(async (wire, { request }) => {
      await wire.head(200, "text/event-stream");
      const last = events.slice(-2).map(({ bytes }) => bytes);
      for (const { bytes } of events.slice(0, -2)) await wire.chunk(bytes);
      await wire.pause(5);
      const end = ends.get(request.headers.get("x-request-id") ?? "");
      // In turn: the tail first, decode first, and the finish event before the tail and the end mark after it.
      const turn = decode.exchanges.length % 3;
      if (turn === 0) end?.();
      await wire.chunk(turn === 2 ? last[0]! : Buffer.concat(last));
      if (turn !== 0) end?.();
      if (turn === 2) await wire.chunk(last[1]!);
      await wire.end();
    });
    const server = serveRouter({
      mode: "sglang",
      prefill: [prefill.url],
      decode: [decode.url],
      config: { lateFailure, timeouts: { settleMs, tailMs: 500 }, breaker: { enabled: false } },
    });
    const endings: Record<Ending, number> = { well: 0, status: 0, frame: 0 };
    try {
      for (let round = 0; round < 25; round++) {
        await Promise.all(
          Array.from({ length: 8 }, async () => {
            const seen = await ask({ port: server.port, path: paths[api], body: requestBody(api, true) });
            const ending = judge(seen, {
              api,
              stream: true,
              mayEndWell: true,
              mayFail: lateFailure === "any",
              // A starved router may read decode's first piece and prefill's end together: nothing is committed then.
              as: "either",
              codes: ["prefill_unreachable"],
              events,
              delivered: events.length,
              body: answerBody(api),
            });
            endings[ending]++;
          }),
        );
      }
      await atRest(server, [prefill, decode], 3_000);
    } finally {
      await stopAll(server, [prefill, decode]);
    }
    const failed = endings.frame + endings.status;
    expect(endings.well + failed).toBe(200);
    // With time to settle and every loss counting, a tail that breaks is always seen; without it decode's end is always first.
    if (settleMs === 300 && lateFailure === "any") expect(failed).toBeGreaterThan(150);
    if (lateFailure === "definitive") expect(endings.well).toBe(200);
  },
);
