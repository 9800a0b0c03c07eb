import { describe, expect, test } from "bun:test";
import { errorOf, type HandRouter, handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { DONE, finish, say } from "../relay/hand-made.ts";

/** What is told of a request whose several sequences go ways of their own: of the whole, never of a part. */

const ONE_TRY = { retries: { maxRetries: 0 } };
const BROKEN = { error: { message: "KV transfer failed" } };

function told({ router }: HandRouter) {
  return router.telemetry.recent.finished()[0]!;
}

describe("error frames", () => {
  test("a part that fails before the others have begun is a plain error to the client, and no frame", async () => {
    const hand = handRouter({ engine: "sglang" }, ONE_TRY);
    const { at, ask, counter } = hand;
    const { response } = ask({ n: 3 });
    await settled();
    at("d1").head().push(say("hi"));
    await settled();
    at("p1").json(BROKEN, 500);
    expect(await errorOf(response)).toMatchObject({ status: 500, router: "prefill_failed" });
    expect(counter("error_frames_total")).toBe(0);
    expect(told(hand)).toMatchObject({ status: 500, errorFrame: false, committedAt: 0, bytesOut: 0, chunks: 0 });
  });

  test("a part that fails when all have begun is one frame, and counted once", async () => {
    const hand = handRouter({ engine: "sglang" }, ONE_TRY);
    const { at, ask, counter } = hand;
    const { response } = ask({ n: 2 });
    await settled();
    for (const name of ["d1", "d2"]) at(name).head().push(say("hi"));
    const text = textOf(response);
    await settled();
    at("p1").json(BROKEN, 500);
    at("p2").json(PREFILLED);
    expect((await text).match(/"error"/g)).toHaveLength(1);
    expect(counter("error_frames_total")).toBe(1);
    expect(told(hand)).toMatchObject({ status: 200, errorFrame: true, bytesOut: (await text).length });
  });
});

describe("the way", () => {
  const STOPPED = { ...PREFILLED, choices: [{ ...PREFILLED.choices[0]!, finish_reason: "stop" }] };
  const ANSWER = { choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] };
  const way = (headers: Headers) => ["path", "prefill", "decode"].map((name) => headers.get(`x-router-${name}`));

  test.each([true, false])("names the decode worker of the parts that needed one (stream: %p)", async (stream) => {
    const hand = handRouter({ engine: "vllm" });
    const { at, ask, sent } = hand;
    const { response } = ask({ n: 2, stream });
    await settled();
    at("p1").whole(nixlAnswer());
    await settled();
    if (stream)
      at("d1")
        .head()
        .push(say("hi") + finish() + DONE)
        .end();
    else at("d1").json(ANSWER);
    await settled();
    at("p2").json(STOPPED);
    const { headers } = await response;
    expect(way(headers)).toEqual(["disaggregated", "p2", "d1"]);
    expect(sent()).toEqual(["p1", "p2", "d1"]);
    await textOf(response);
    expect(told(hand)).toMatchObject({ path: "disaggregated", decode: "d1" });
  });

  test("names none where prefill has answered all of them", async () => {
    const { at, ask } = handRouter({ engine: "vllm" });
    const { response } = ask({ n: 2, stream: false });
    await settled();
    for (const name of ["p1", "p2"]) at(name).json(STOPPED);
    expect(way((await response).headers)).toEqual(["prefill-only", expect.any(String), null]);
  });
});

test("a part that goes another way does not take the times of the others' legs", async () => {
  const lab = handRouter({ engine: "vllm" }, { disaggregation: { minPromptTokens: 100 } });
  lab.clock.time = 7 * 86_400_000;
  const body = JSON.stringify({ model: "m", prompt: ["word ".repeat(200), "hi"], max_tokens: 4 });
  const { response } = lab.ask({}, { path: "/v1/completions", body });
  await settled();
  await lab.clock.advance(300);
  lab.at("p1").whole(nixlAnswer());
  await settled();
  for (const request of lab.transport.requests)
    if (request.url.includes("//d")) request.json({ choices: [{ index: 0, text: "a", finish_reason: "stop" }] });
  expect((await response).status).toBe(200);
  const sum = /prefill_router_prefill_seconds_sum\{[^}]*\} (\S+)/.exec(lab.router.telemetry.metrics.render())?.[1];
  expect(Number(sum)).toBeWithin(0.2, 1);
});
