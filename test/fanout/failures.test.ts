import { describe, expect, test } from "bun:test";
import { eventsOf, type Json, type SplitEngine, type Stand, stand, until } from "./fleet-of-simulators.ts";

const PATH = "/v1/chat/completions";
const engines: SplitEngine[] = ["sglang", "vllm", "trtllm"];
/** Long enough that every part is still at it when something happens to one. */
const slow = { itlMs: 5 };

function chat(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    model: "demo-model",
    messages: [{ role: "user", content: "Who is there? [sim:tokens=40]" }],
    n: 3,
    seed: 1,
    stream: true,
    ...more,
  };
}

/**
 * Nothing runs on any engine, no load is counted on any worker, no request counts as running, and no hand-off is held but those that a
 * decode got and did not read.
 */
async function expectQuiet({ router, prefill, decode }: Stand, unread = 0): Promise<void> {
  const held = () => prefill.side?.heldGrants ?? 0;
  const busy = () => prefill.inFlight + decode.inFlight + router.active() + load(router) + Math.max(0, held() - unread);
  await until(() => busy() === 0);
  expect({ prefill: prefill.inFlight, decode: decode.inFlight, active: router.active(), load: load(router) }).toEqual({
    prefill: 0,
    decode: 0,
    active: 0,
    load: 0,
  });
  expect(held()).toBeLessThanOrEqual(unread);
}

function load(router: Stand["router"]): number {
  let sum = 0;
  for (const model of router.services.fleet.models()) {
    for (const pool of model.pools) {
      for (const worker of [...pool.prefill, ...pool.decode]) sum += worker.load.requests;
    }
  }
  return sum;
}

describe("before the commit the first part that fails gives its status to the whole", () => {
  for (const engine of engines) {
    for (const stream of [true, false]) {
      const kind = stream ? "streamed" : "buffered";

      test(`${engine}, ${kind}: one prefill answers 503`, async () => {
        const here = stand(engine, { timing: { ...slow, prefillMsPerToken: 2 } });
        here.prefill.setFaults(["status:503*1"]);
        const answer = await here.post(PATH, chat({ stream }));
        expect(answer.status).toBe(503);
        expect(answer.headers.get("x-router-error-code")).toBe("prefill_failed");
        expect(((await answer.json()) as Json).error.stage).toBe("prefill");
        await expectQuiet(here);
      });

      test(`${engine}, ${kind}: one decode answers 400`, async () => {
        const here = stand(engine, { timing: slow });
        here.decode.setFaults(["status:400*1"]);
        const answer = await here.post(PATH, chat({ stream }));
        expect(answer.status).toBe(400);
        expect(answer.headers.get("x-router-error-code")).toBe("decode_failed");
        await expectQuiet(here, engine === "sglang" ? 0 : 1);
      });

      test(`${engine}, ${kind}: one decode cuts the connection`, async () => {
        const here = stand(engine, { timing: slow });
        here.decode.setFaults(["reset*1"]);
        const answer = await here.post(PATH, chat({ stream }));
        expect(answer.status).toBe(502);
        expect(answer.headers.get("x-router-error-code")).toBe("decode_unreachable");
        await expectQuiet(here, engine === "sglang" ? 0 : 1);
      });
    }
  }

  test("the others are aborted at once, not when they are through", async () => {
    const here = stand("sglang", { timing: { itlMs: 50 } });
    here.decode.setFaults(["status:400*1"]);
    const since = performance.now();
    const answer = await here.post(PATH, chat({ stream: false }));
    expect(answer.status).toBe(400);
    await expectQuiet(here);
    expect(performance.now() - since).toBeLessThan(1_000);
    expect(here.decode.stats.aborts).toBe(2);
  });

  test("a part is tried again by itself, and the whole is well", async () => {
    const here = stand("vllm", { config: { retries: { maxRetries: 2, backoffMs: 1 } } });
    here.prefill.setFaults(["reset*1"]);
    const answer = await here.post(PATH, chat({ stream: false }));
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as Json).choices).toHaveLength(3);
    expect(here.prefill.log).toHaveLength(4);
    expect(here.decode.log).toHaveLength(3);
    await expectQuiet(here);
  });
});

describe("after the commit the failure of one part is one frame", () => {
  for (const engine of engines) {
    for (const fault of ["abort:500@4*1", "error-frame@4*1", "reset@4*1", "cut@4*1"]) {
      test(`${engine}: ${fault}`, async () => {
        const here = stand(engine, { timing: slow });
        here.decode.setFaults([fault]);
        const answer = await here.post(PATH, chat());
        expect(answer.status).toBe(200);
        const events = eventsOf(await answer.text());
        expect(events.at(-1)).toBe("[DONE]");
        expect(events.filter((event) => event === "[DONE]")).toHaveLength(1);
        const read = events.slice(0, -1).map((event) => JSON.parse(event) as Json);
        expect(read.filter(({ error }) => error !== undefined)).toHaveLength(1);
        expect(read.at(-1).error.message).not.toBe("");
        expect(read.at(-1).choices).toBeUndefined();
        const finished = read.flatMap(({ choices }) => (choices ?? []).filter((one: Json) => one.finish_reason));
        expect(finished).toEqual([]);
        await expectQuiet(here);
      });
    }
  }

  test("a part that goes silent is a timeout of the whole", async () => {
    const here = stand("sglang", { timing: { itlMs: 1 }, config: { timeouts: { idleMs: 60 } } });
    here.decode.setFaults(["silence@4*1"]);
    const events = eventsOf(await (await here.post(PATH, chat())).text());
    expect(JSON.parse(events.at(-2)!).error.code).toBe("decode_timeout");
    await expectQuiet(here);
  });
});

describe("a client that leaves", () => {
  for (const engine of engines) {
    test(`${engine}: in the middle of the stream, all parts are aborted`, async () => {
      const here = stand(engine, { timing: slow });
      const answer = await here.post(PATH, chat());
      const reader = answer.body!.getReader();
      await reader.read();
      await reader.cancel();
      await expectQuiet(here);
      expect(here.decode.stats.aborts).toBe(3);
    });

    test(`${engine}: while the parts are at prefill`, async () => {
      const here = stand(engine, { timing: { prefillMsPerToken: 20 } });
      const leaving = new AbortController();
      const answer = here.post(PATH, chat(), leaving.signal);
      await until(() => here.prefill.inFlight === 3);
      leaving.abort();
      await answer.catch(() => {});
      await expectQuiet(here);
    });

    test(`${engine}: while a buffered answer is made`, async () => {
      const here = stand(engine, { timing: slow });
      const leaving = new AbortController();
      const answer = here.post(PATH, chat({ stream: false }), leaving.signal);
      await until(() => here.decode.inFlight === 3);
      leaving.abort();
      await answer.catch(() => {});
      await expectQuiet(here);
    });
  }

  test("one that does not read stops every part", async () => {
    const here = stand("sglang");
    const answer = await here.post(PATH, chat({ messages: [{ role: "user", content: "[sim:tokens=100000]" }] }));
    const reader = answer.body!.getReader();
    await reader.read();
    await new Promise<void>((resolve) => setTimeout(resolve, 50));
    expect(here.decode.inFlight).toBe(3);
    await reader.cancel();
    await expectQuiet(here);
  });
});

describe("shutdown and keep-alive", () => {
  test("a shutdown ends a merged stream with one frame", async () => {
    const here = stand("sglang", { timing: { itlMs: 20 } });
    const answer = await here.post(PATH, chat());
    const text = answer.text();
    await here.router.shutdown(30);
    const events = eventsOf(await text);
    expect(events.at(-1)).toBe("[DONE]");
    const errors = events.filter((event) => event.startsWith('{"error"'));
    expect(errors).toHaveLength(1);
    expect(JSON.parse(errors[0]!).error.code).toBe("shutting_down");
    await expectQuiet(here);
  });

  test("once a comment has promised 200, the failure of a part is a frame and no part is tried again", async () => {
    const here = stand("vllm", {
      timing: { prefillMsPerToken: 5 },
      config: { timeouts: { keepAliveMs: 20 }, retries: { maxRetries: 2 } },
    });
    here.prefill.setFaults(["status:503*1", "delay:60"]);
    const answer = await here.post(PATH, chat());
    expect(answer.status).toBe(200);
    const text = await answer.text();
    expect(text).toContain(": keep-alive");
    expect(text.split('"error"')).toHaveLength(2);
    expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
    expect(here.prefill.log).toHaveLength(3);
    await expectQuiet(here);
  });
});

describe("what is not split into parts", () => {
  test("more than limits.fanout is a 400 that names the member, and reaches nobody", async () => {
    const here = stand("sglang");
    const answer = await here.post(PATH, chat({ n: 9 }));
    expect(answer.status).toBe(400);
    expect(((await answer.json()) as Json).error).toMatchObject({ code: "invalid_request", param: "n" });
    const batch = await here.post("/v1/completions", { model: "demo-model", prompt: new Array(9).fill("a") });
    expect(((await batch.json()) as Json).error).toMatchObject({ code: "invalid_request", param: "prompt" });
    expect(here.prefill.log.length + here.decode.log.length).toBe(0);
  });

  test.each([
    ["more than limits.fanout", { n: 9 }, 9],
    ["best_of above n", { n: 2, best_of: 4 }, 2],
  ])("%s goes whole to an aggregated worker where there is one", async (_, more, choices) => {
    const here = stand("vllm", { whole: true });
    const answer = await here.post(PATH, chat({ stream: false, ...more }));
    expect(answer.headers.get("x-router-path")).toBe("aggregated");
    expect(((await answer.json()) as Json).choices).toHaveLength(choices);
    expect(here.aggregated.log).toHaveLength(1);
    expect(JSON.parse(here.aggregated.log[0]!.body)).toMatchObject(more);
  });

  test("best_of above n is a 400 where there is none; an empty list always", async () => {
    const here = stand("vllm");
    const best = await here.post(PATH, chat({ n: 2, best_of: 3 }));
    expect(best.status).toBe(400);
    expect(((await best.json()) as Json).error.param).toBe("best_of");
    const empty = await here.post("/v1/completions", { model: "demo-model", prompt: [] });
    expect(empty.status).toBe(400);
    expect(here.prefill.log.length + here.decode.log.length).toBe(0);
  });
});

describe("each part goes its own way", () => {
  test("sglang: a room of its own, seen once on each side, and never n above 1", async () => {
    const { post, prefill, decode } = stand("sglang");
    await (await post(PATH, chat({ n: 4, seed: "9223372036854775806" }))).text();
    const rooms = (log: typeof prefill.log) => log.map(({ body }) => /"bootstrap_room":(\d+)/.exec(body)![1]!);
    expect(new Set(rooms(prefill.log)).size).toBe(4);
    expect(rooms(prefill.log).sort()).toEqual(rooms(decode.log).sort());
    for (const { body } of [...prefill.log, ...decode.log]) expect(JSON.parse(body).n).toBe(1);
  });

  test("vllm: an id of its own on both legs, seeds exact to 64 bits and equal on both legs", async () => {
    const { post, prefill, decode } = stand("vllm");
    const body = JSON.stringify(chat({ stream: false })).replace('"seed":1', '"seed":9223372036854775806');
    const answer = await post(PATH, body);
    expect(answer.status).toBe(200);
    const seen = ({ headers, body }: (typeof prefill.log)[number]) =>
      `${headers.get("x-request-id")} ${/"seed":(-?\d+)/.exec(body)![1]}`;
    expect(new Set(prefill.log.map(({ headers }) => headers.get("x-request-id"))).size).toBe(3);
    expect(prefill.log.map(seen).sort()).toEqual(decode.log.map(seen).sort());
    expect(decode.log.map(({ body }) => /"seed":(-?\d+)/.exec(body)![1]!).sort()).toEqual([
      "-9223372036854775808",
      "9223372036854775806",
      "9223372036854775807",
    ]);
  });

  test("the record counts the whole: tokens of all answers, the prompt once", async () => {
    const { post, router } = stand("vllm");
    const answer = (await (await post(PATH, chat({ stream: false }))).json()) as Json;
    const metrics = await (await router.fetch(new Request("http://router.test/metrics"))).text();
    const count = (name: string) =>
      metrics
        .split("\n")
        .filter((line) => line.startsWith(`prefill_router_${name}{`) || line.startsWith(`prefill_router_${name} `))
        .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    expect(count("completion_tokens_total")).toBe(answer.usage.completion_tokens);
    expect(count("prompt_tokens_total")).toBe(answer.usage.prompt_tokens);
    expect(count("requests_total")).toBe(1);
  });
});
