import { expect, test } from "bun:test";
import { type HandRouter, handRouter, nixlAnswer, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { DONE, finish, ROLE, say } from "../relay/hand-made.ts";

const ANSWER = [ROLE, say("hi"), finish(), DONE];

function finished({ router }: HandRouter) {
  return router.telemetry.recent.finished()[0]!;
}

test("both legs at once: after a second try neither a hand-off gap nor a prefill time is made of the first try's times", async () => {
  const hand = handRouter({ engine: "sglang" }, { timeouts: { settleMs: 50 } });
  const { at, ask, clock, counter, sent } = hand;
  const { response } = ask();
  await clock.advance(50);
  at("p1").json(PREFILLED);
  await clock.advance(250);
  at("d1").json({ error: { message: "full" } }, 503);
  await settled();
  expect(sent()).toEqual(["p1", "d1", "p2", "d2"]);
  at("d2")
    .head()
    .push(...ANSWER)
    .end();
  const text = textOf(response);
  await clock.advance(50);
  expect(await text).toBe(ANSWER.join(""));
  expect(finished(hand)).toMatchObject({ attempts: 2, prefillDoneAt: 0 });
  expect(finished(hand).prefillSentAt).toBe(finished(hand).decodeSentAt);
  expect(counter("handoff_gap_seconds_count")).toBe(0);
  await clock.advance(500);
  at("p2").json(PREFILLED);
  await settled();
  expect([counter("prefill_seconds_count"), counter("prefill_seconds_sum")]).toEqual([1, 0.55]);
});

test("a prefill of a try that was given up ends after the next has begun: its end is not the next one's", async () => {
  const hand = handRouter({ engine: "sglang", cancel: "deferred" }, { timeouts: { settleMs: 50 } });
  const { at, ask, clock } = hand;
  const { response } = ask();
  await clock.advance(300);
  at("d1").json({ error: { message: "full" } }, 503);
  await clock.advance(10);
  at("p1").json(PREFILLED);
  at("d2")
    .head()
    .push(...ANSWER)
    .end();
  const text = textOf(response);
  await clock.advance(50);
  await text;
  expect(finished(hand).prefillDoneAt).toBe(0);
});

test("a hand-off that the second try takes over keeps its prefill's times", async () => {
  const hand = handRouter({ engine: "vllm" });
  const { at, ask, clock, sent } = hand;
  const { response } = ask();
  await clock.advance(100);
  at("p1").whole(nixlAnswer());
  await settled();
  at("d1").refuse();
  await clock.advance(200);
  expect(sent().filter((name) => name.startsWith("p"))).toEqual(["p1"]);
  at("d2")
    .head()
    .push(...ANSWER)
    .end();
  expect(await textOf(response)).toBe(ANSWER.join(""));
  const { prefillSentAt, prefillDoneAt, decodeSentAt } = finished(hand);
  expect(prefillDoneAt - prefillSentAt).toBe(100);
  expect(decodeSentAt).toBeGreaterThan(prefillDoneAt);
});
