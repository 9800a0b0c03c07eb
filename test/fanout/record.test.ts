import { describe, expect, test } from "bun:test";
import { errorOf, type HandRouter, handRouter, PREFILLED, settled, textOf } from "../attempt/hand-made.ts";
import { say } from "../relay/hand-made.ts";

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
