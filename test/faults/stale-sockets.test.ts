import { expect, test } from "bun:test";
import { ScriptedEngine } from "./engine.ts";
import { type Mode, prefillAnswer } from "./prefill-answers.ts";
import { ask } from "./raw-client.ts";
import { atRest, serveRouter, stopAll } from "./served-router.ts";
import { answerBody, paths, requestBody } from "./streams.ts";

/** What uvicorn does after five seconds, done after a fraction of one. */
const idleCloseMs = 60;
const ROUNDS = 26;

/**
 * A socket that is kept alive may be closed by the engine in the moment in which a request goes out on it. Such a request fails before any
 * byte of an answer, is tried again, and must not reach decode twice with one hand-off: it is good for one read.
 */
test.each<Mode>(["vllm", "trtllm", "sglang", "aggregated"])(
  "requests succeed although %s closes idle connections under them, and no leg arrives twice",
  async (mode) => {
    const api = "chat";
    let serial = 0;
    const prefill = await ScriptedEngine.start(
      (wire) => {
        serial++;
        const answer = prefillAnswer(mode, api).replace('"rr-1"', `"rr-${serial}"`);
        // Exact in JSON text, beyond what a JavaScript number holds.
        return wire.json(
          200,
          answer.replace("9223372036854775801", String(9_223_372_036_854_770_000n + BigInt(serial))),
        );
      },
      { idleCloseMs },
    );
    const decode = await ScriptedEngine.start((wire) => wire.json(200, answerBody(api)), { idleCloseMs });
    const server = serveRouter({
      mode,
      prefill: [prefill.url],
      decode: [decode.url],
      config: { retries: { maxRetries: 2 }, breaker: { failures: 50 } },
    });
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const answers = await Promise.all(
          Array.from({ length: 3 }, () =>
            ask({ port: server.port, path: paths[api], body: requestBody(api, false, `round ${round}`) }),
          ),
        );
        expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
        // Before, at and after the moment in which the engine closes.
        await new Promise((resolve) => setTimeout(resolve, idleCloseMs - 6 + (round % 13)));
      }
      await atRest(server, [prefill, decode], 2_000);
      const seen = new Map<string, number>();
      for (const engine of [prefill, decode]) {
        for (const { request } of engine.exchanges) {
          const id = `${engine === prefill ? "prefill" : "decode"} ${request.headers.get("x-request-id")}`;
          seen.set(id, (seen.get(id) ?? 0) + 1);
        }
      }
      expect([...seen].filter(([, count]) => count > 1)).toEqual([]);
      const handoffs = decode.exchanges.map(({ request }) => handoffOf(request.body)).filter((id) => id !== undefined);
      expect(new Set(handoffs).size).toBe(handoffs.length);
      if (mode === "vllm" || mode === "trtllm") expect(handoffs.length).toBeGreaterThanOrEqual(ROUNDS * 3);
    } finally {
      await stopAll(server, [prefill, decode]);
    }
  },
  30_000,
);

test.each<{ mode: Mode; stale: "prefill" | "decode" | "both" }>([
  { mode: "vllm", stale: "prefill" },
  { mode: "vllm", stale: "decode" },
  { mode: "vllm", stale: "both" },
  { mode: "trtllm", stale: "decode" },
  { mode: "sglang", stale: "prefill" },
  { mode: "sglang", stale: "decode" },
  { mode: "sglang", stale: "both" },
  { mode: "aggregated", stale: "decode" },
])(
  "a kept-alive socket ($stale) that breaks when $mode has the request: tried again with fresh ids, never sent again by the runtime",
  async ({ mode, stale }) => {
    const api = "chat";
    let serial = 0;
    // The worst of all moments: the engine has the request, and its connection is gone before a byte of an answer.
    const prefill = await ScriptedEngine.start((wire, { nth }) => {
      if (nth > 1 && stale !== "decode") return wire.rst(0);
      serial++;
      return wire.json(200, prefillAnswer(mode, api).replace('"rr-1"', `"rr-${serial}"`));
    });
    const decode = await ScriptedEngine.start((wire, { nth }) =>
      nth > 1 && stale !== "prefill" ? wire.rst(0) : wire.json(200, answerBody(api)),
    );
    const server = serveRouter({
      mode,
      prefill: [prefill.url],
      decode: [decode.url],
      config: { retries: { maxRetries: 2, budget: 0, backoffMs: 1 }, breaker: { enabled: false } },
    });
    try {
      const statuses: number[] = [];
      const one = async () =>
        statuses.push((await ask({ port: server.port, path: paths[api], body: requestBody(api, false) })).status);
      // Four at once fill the pools of connections, and every one of those is stale: only a new one is certain to work.
      for (let round = 0; round < 10; round++) await Promise.all([one(), one(), one(), one()]);
      await atRest(server, [prefill, decode], 2_000);
      expect(statuses).toEqual(Array.from({ length: 40 }, () => 200));
      for (const engine of [prefill, decode]) {
        const ids = engine.exchanges.map(({ request }) => request.headers.get("x-request-id"));
        expect(new Set(ids).size).toBe(ids.length);
      }
      const handoffs = decode.exchanges.map(({ request }) => /"(rr-\d+)"/.exec(request.body)?.[1]);
      if (mode === "vllm") expect(new Set(handoffs).size).toBe(handoffs.length);
      // The sockets were kept alive and did break, else this shows nothing.
      const broken = stale === "prefill" ? prefill : decode;
      expect(broken.exchanges.some(({ nth }) => nth > 1)).toBe(true);
    } finally {
      await stopAll(server, [prefill, decode]);
    }
  },
);

function handoffOf(body: string): string | undefined {
  return /"(?:remote_request_id|ctx_request_id)":"?(?:rr-)?(\d+)/.exec(body)?.[1];
}
