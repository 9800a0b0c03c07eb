import { describe, expect, test } from "bun:test";
import { createFabric } from "../../src/simulator/fabric.ts";
import type { SimulatedEngineOptions } from "../../src/simulator/options.ts";
import { respond } from "../../src/simulator/play-response.ts";
import { makeEngine, settle } from "../simulator/support.ts";
import { call, chat, EngineHouse, type Json, routerOver, tend } from "./house.ts";

const D = "http://d:1";

interface Bench {
  house: EngineHouse;
  /** Starts (or starts anew) prefill engine `n`, with an engine id of its own. */
  start(n: number): ReturnType<typeof makeEngine>;
  decode: ReturnType<typeof makeEngine>;
  queries(n?: number): number;
  legs(url: string): Json[];
  router: ReturnType<typeof routerOver>["router"];
}

/** One decode engine and some prefill engines with a bootstrap server each. Nobody has asked them anything. */
function bench(prefills: number, config: object = {}, more: Partial<SimulatedEngineOptions> = {}): Bench {
  const house = new EngineHouse();
  const fabric = createFabric();
  const common = { engine: "vllm", connector: "mooncake", model: "m", fabric, ...more } as const;
  const decode = makeEngine({
    ...common,
    role: "decode",
    timing: { prefillMsPerToken: 0, itlMs: 0, transferMs: 0, dialMs: 0, pairMs: 20 },
  });
  house.engines.set(D, decode);
  const start = (n: number) => {
    const engine = makeEngine({ ...common, role: "prefill", sidePort: 8998 + n, sideHost: `p${n}` });
    house.engines.set(`http://p${n}:1`, engine);
    house.engines.set(`http://p${n}:${8998 + n}`, respond({ ...engine, dead: false, handle: engine.handleSide! }));
    return engine;
  };
  const prefill = [];
  for (let n = 0; n < prefills; n++) {
    start(n);
    prefill.push({ url: `http://p${n}:1`, bootstrapPort: 8998 + n });
  }
  const { router } = routerOver(house, {
    models: [{ id: "m", pools: [{ engine: "vllm", connector: "mooncake", prefill, decode: [D] }] }],
    policy: { prefill: "round-robin", decode: "round-robin" },
    retries: { maxRetries: 1, backoffMs: 0 },
    ...config,
  });
  return {
    house,
    start,
    decode,
    queries: (n) =>
      house.seen.filter(({ url, path }) => path === "/query" && (n === undefined || url === `http://p${n}:${8998 + n}`))
        .length,
    legs: (url) =>
      house.seen.filter((seen) => seen.url === url && seen.path.startsWith("/v1/")).map(({ body }) => JSON.parse(body)),
    router,
  };
}

const ask = (router: Bench["router"], content?: string) =>
  call(router, "POST", "/v1/chat/completions", chat("m", content));

describe("Mooncake, from the first request on", () => {
  test("the bootstrap server is asked by the first request that needs it, and by no other", async () => {
    const { router, queries, decode, legs } = bench(1);
    const answers = await Promise.all(["a", "b", "c"].map((content) => ask(router, content)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await ask(router)).status).toBe(200);
    await tend(router);
    expect(queries()).toBe(1);
    expect(decode.stats).toMatchObject({ pulled: 4, local: 0, mismatched: 0 });
    for (const leg of legs("http://p0:1")) {
      expect(leg).toMatchObject({
        min_tokens: 1,
        max_tokens: 1,
        stream: false,
        kv_transfer_params: {
          do_remote_decode: true,
          do_remote_prefill: false,
          transfer_id: expect.stringMatching(/^xfer-/),
        },
      });
    }
    const ids = (url: string) =>
      legs(url)
        .map((leg) => leg.kv_transfer_params.transfer_id)
        .sort();
    expect(ids(D)).toEqual(ids("http://p0:1"));
    expect(new Set(ids(D)).size).toBe(4);
  });

  test("both legs leave in one tick, and prefill's names its rank", async () => {
    const { router, house, legs } = bench(1, {}, { dpSize: 2 });
    const headers: (string | null)[] = [];
    house.engines.set("http://p0:8998", () => Response.json({ "0": { engine_id: "e0" }, "1": { engine_id: "e1" } }));
    house.engines.set("http://p0:1", (request) => {
      headers.push(request.headers.get("x-data-parallel-rank"));
      // Both legs leave before anything is answered.
      expect(legs(D)).toHaveLength(headers.length - 1);
      return new Promise((resolve) =>
        setTimeout(resolve, 5, Response.json({ choices: [{ finish_reason: "length" }] })),
      );
    });
    house.engines.set(D, () => Response.json({ choices: [{ finish_reason: "stop" }] }));
    for (let i = 0; i < 3; i++) expect((await ask(router)).status).toBe(200);
    const engines = legs(D).map((leg) => leg.kv_transfer_params.remote_engine_id);
    expect(engines).toEqual(headers.map((rank) => `e${rank}`));
    expect(new Set(headers)).toEqual(new Set(["0", "1"]));
    const order = house.seen.filter(({ path }) => path !== "/query").map(({ url }) => url);
    expect(order.slice(0, 2)).toEqual(["http://p0:1", D]);
  });

  test("an engine that came back as another is found out by the request that fails, whose retry asks", async () => {
    const { router, start, queries, decode } = bench(1);
    expect((await ask(router)).status).toBe(200);
    const again = start(0);
    // Decode waits for blocks under the old id until it gives up; the retry goes to the new one.
    expect((await ask(router, "after a restart")).status).toBe(200);
    expect(queries()).toBe(2);
    expect(decode.stats).toMatchObject({ pairTimeouts: 1, pulled: 2 });
    expect(again.stats.requests).toBe(2);
    expect((await ask(router, "and again")).status).toBe(200);
    expect(queries()).toBe(2);
  });

  test("a bootstrap server that refuses costs a retry elsewhere; it is not asked by every request", async () => {
    const { router, house, queries } = bench(2);
    house.engines.delete("http://p0:8998");
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await ask(router, `${i}`));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect(answers.map(({ headers }) => headers.get("x-router-prefill"))).toEqual(Array(4).fill("prefill-2"));
    expect([queries(0), queries(1)]).toEqual([1, 1]);
  });

  test("none that can be asked is a prefill that cannot be reached", async () => {
    const { router, house, decode } = bench(1, { retries: { maxRetries: 0 } });
    house.engines.delete("http://p0:8998");
    const answer = await ask(router);
    expect([answer.status, answer.json.error.code, answer.json.error.stage]).toEqual([
      502,
      "prefill_unreachable",
      "prefill",
    ]);
    expect(decode.log).toHaveLength(0);
  });

  test("a client that leaves while the server is asked leaves nothing behind", async () => {
    const { router, house, legs } = bench(1);
    let answer!: (response: Response) => void;
    house.engines.set("http://p0:8998", () => new Promise((resolve) => (answer = resolve)));
    const leaving = new AbortController();
    const request = new Request("http://router/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(chat()),
      signal: leaving.signal,
    });
    const gone = router.fetch(request);
    await settle();
    leaving.abort();
    await gone;
    answer(Response.json({ "0": { engine_id: "e0" } }));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect([legs("http://p0:1"), legs(D)]).toEqual([[], []]);
    for (const worker of router.services.fleet.workers()) expect(worker.load.requests).toBe(0);
  });
});
