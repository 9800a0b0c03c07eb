import { describe, expect, test } from "bun:test";
import type { Answer } from "../../src/attempt/answer.ts";
import type { Call } from "../../src/attempt/call.ts";
import { ClientGone, Failure } from "../../src/errors/failure.ts";
import { fanOut } from "../../src/fanout/fan-out.ts";
import { lost, newCall, ticks } from "./hand-made.ts";

const clock = { now: () => 42, after: () => () => {} };

interface Walk {
  call: Call;
  answer(answer: Answer): void;
  fail(error: unknown): void;
}

/** A whole of `count` parts whose walks the test plays. */
function start(count: number) {
  const call = newCall();
  const walks: Walk[] = [];
  const parts = new Array(count).fill({ request: call.request, prompt: undefined });
  const answer = fanOut(call, { parts, samples: count }, clock, walk);
  answer.catch(() => {});
  return { call, walks, answer };

  function walk(part: Call): Promise<Answer> {
    return new Promise((resolve, reject) => walks.push({ call: part, answer: resolve, fail: reject }));
  }
}

function stream(): Answer {
  return { kind: "stream", source: { next: () => new Promise(() => {}) }, headers: [] };
}

function buffered(index: number): Answer {
  return {
    kind: "buffered",
    body: `{"choices":[{"index":0,"text":"${index}"}],"usage":{"prompt_tokens":2,"completion_tokens":${index + 1}}}`,
    headers: [["x-ratelimit-limit", String(index)]],
  };
}

describe("the commit of the whole", () => {
  test("all parts are sent in one tick, and it waits for the last of them", async () => {
    const { call, walks, answer } = start(3);
    expect(walks).toHaveLength(3);
    walks[2]!.answer(stream());
    walks[0]!.answer(stream());
    await ticks();
    expect(call.record.committedAt).toBe(0);
    walks[1]!.answer(stream());
    expect((await answer).kind).toBe("stream");
    expect(call.record).toMatchObject({ committedAt: 42, status: 200, path: "disaggregated" });
  });

  test("buffered: the first part's headers, and the tokens of all", async () => {
    const { call, walks, answer } = start(2);
    walks[1]!.answer(buffered(1));
    walks[0]!.answer(buffered(0));
    const whole = await answer;
    expect(whole).toMatchObject({ kind: "buffered", headers: [["x-ratelimit-limit", "0"]] });
    expect(JSON.parse((whole as { body: string }).body).usage).toEqual({ prompt_tokens: 2, completion_tokens: 3 });
    expect(call.record).toMatchObject({ promptTokens: 2, completionTokens: 3 });
  });

  test("a buffered answer among streams is decode's failure, and the streams are closed", async () => {
    const { walks, answer } = start(2);
    walks[0]!.answer(stream());
    walks[1]!.answer(buffered(1));
    expect(await answer.catch((error) => error)).toMatchObject({ code: "decode_failed", status: 502 });
    expect(walks[0]!.call.stopped).toBeInstanceOf(ClientGone);
  });
});

describe("a failure before the commit", () => {
  test("is the whole's, and the other parts are stopped as if their client had left", async () => {
    const { walks, answer, call } = start(3);
    walks[0]!.answer(stream());
    const failure = lost();
    walks[1]!.fail(failure);
    expect(await answer.catch((error) => error)).toBe(failure);
    for (const i of [0, 2]) expect(walks[i]!.call.stopped).toBeInstanceOf(ClientGone);
    expect(call.record.outcome).toBe("");
  });

  test("of a stream that was committed already counts: nothing has been promised to the client", async () => {
    const { walks, answer } = start(2);
    walks[0]!.answer(stream());
    await ticks();
    const failure = lost();
    walks[0]!.call.done(failure);
    expect(walks[1]!.call.stopped).toBeInstanceOf(ClientGone);
    expect(await answer.catch((error) => error)).toBe(failure);
  });

  test("in the very tick of the last commit counts too", async () => {
    const { walks, answer } = start(2);
    const failure = lost();
    walks[0]!.answer(stream());
    walks[1]!.answer(stream());
    await Promise.resolve();
    walks[0]!.call.done(failure);
    expect(await answer.catch((error) => error)).toBe(failure);
  });

  test("the first one stands", async () => {
    const { walks, answer } = start(2);
    const first = lost();
    walks[1]!.fail(first);
    walks[0]!.fail(lost());
    expect(await answer.catch((error) => error)).toBe(first);
  });
});

describe("stopping the whole", () => {
  test("reaches every part before the commit, and is what the client gets", async () => {
    const { call, walks, answer } = start(2);
    const why = new Failure("shutting_down", { status: 503, stage: "router", message: "going" });
    call.stop(why);
    expect(walks.map((walk) => walk.call.stopped)).toEqual([why, why]);
    walks[0]!.fail(new ClientGone());
    expect(await answer.catch((error) => error)).toBe(why);
  });

  test("reaches parts that are started after it", async () => {
    const call = newCall();
    const why = new ClientGone();
    call.stop(why);
    const part = { request: call.request, prompt: undefined };
    const stopped: unknown[] = [];
    const answer = fanOut(call, { parts: [part, part], samples: 2 }, clock, async (one) => {
      stopped.push(one.stopped);
      throw one.stopped;
    });
    expect(await answer.catch((error) => error)).toBe(why);
    expect(stopped).toEqual([why, why]);
  });

  test("after the commit closes the parts and tells how it ended", async () => {
    const { call, walks, answer } = start(2);
    for (const walk of walks) walk.answer(stream());
    const whole = await answer;
    if (whole.kind !== "stream") throw new Error(`Expected a stream, got ${whole.kind}`);
    call.leave();
    expect(await whole.source.next()).toBeUndefined();
    expect(walks.every((walk) => walk.call.stopped instanceof ClientGone)).toBe(true);
    expect(call.record.outcome).toBe("client_cancel");
  });
});

test("a part's end says nothing about the whole, and a promised status holds for its parts", async () => {
  const { call, walks } = start(2);
  walks[0]!.call.done(undefined);
  expect(call.record.outcome).toBe("");
  expect(walks[1]!.call.statusCommitted).toBe(false);
  call.statusCommitted = true;
  expect(walks[1]!.call.statusCommitted).toBe(true);
});
