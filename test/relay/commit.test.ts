import { describe, expect, test } from "bun:test";
import { Failure } from "../../src/errors/failure.ts";
import { settled } from "../manual-clock.ts";
import { chunk, DONE, event, failPrefill, finish, ROLE, relayed, say, settlePrefill } from "./hand-made.ts";

describe("what commits the status (contract section 5)", () => {
  const answers: [string, string][] = [
    ["content", say("hi")],
    ["reasoning", chunk({ reasoning_content: "hm" })],
    ["a tool call", chunk({ tool_calls: [{ index: 0, function: { name: "f", arguments: "" } }] })],
    ["logprobs", event({ choices: [{ index: 0, delta: {}, logprobs: { content: [{ token: "a", logprob: -1 }] } }] })],
  ];
  test.each(answers)("%s does", async (_, bytes) => {
    const { engine, commit } = await relayed();
    engine.push(bytes);
    await settled();
    expect(commit.state).toBe("committed");
  });

  const notYet: [string, string][] = [
    ["a role chunk", ROLE],
    ["an empty delta", chunk({ content: "" })],
    ["a comment", ": ping\n\n"],
    ["an event without data", "event: x\n\n"],
    ["half an event", say("hi").slice(0, -1)],
  ];
  test.each(notYet)("%s does not", async (_, bytes) => {
    const { engine, commit } = await relayed();
    engine.push(bytes);
    await settled();
    expect(commit.state).toBe("pending");
  });

  test("what was held before the answer goes out with it, byte for byte, in one piece", async () => {
    const { engine, read } = await relayed();
    engine.push(": ping\r\n\r\n", ROLE, say("hi"));
    expect(await read()).toBe(`: ping\r\n\r\n${ROLE}${say("hi")}`);
  });

  test("after sixteen events without an answer it is committed anyway", async () => {
    const { engine, commit } = await relayed();
    engine.push(...Array.from({ length: 15 }, () => ROLE));
    await settled();
    expect(commit.state).toBe("pending");
    engine.push(ROLE);
    await settled();
    expect(commit.state).toBe("committed");
  });

  test("after 64 KiB without an answer it is committed anyway", async () => {
    const { engine, commit } = await relayed();
    const big = event({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, pad: "x".repeat(40_000) }] });
    engine.push(big);
    await settled();
    expect(commit.state).toBe("pending");
    engine.push(big);
    await settled();
    expect(commit.state).toBe("committed");
  });

  test("an engine's pings never commit, however many: the request may still be tried elsewhere", async () => {
    const { engine, commit } = await relayed();
    engine.push(...Array.from({ length: 40 }, () => ": ping\n\n"));
    await settled();
    expect(commit.state).toBe("pending");
    engine.end();
    await settled();
    expect(commit.state).toMatchObject({ code: "decode_failed", status: 502, kind: "cut" });
  });
});

describe("before the commit a failure is a rejection, never a frame", () => {
  const failures: [string, string, object][] = [
    [
      "an error event after a role chunk (a failed KV pull)",
      'data: {"error": {"message": "Internal server error", "type": "InternalServerError", "code": 500}}\n\n',
      { code: "decode_failed", status: 500, kind: "content" },
    ],
    [
      "an error without a status of its own",
      event({ error: { message: "boom" } }),
      { code: "decode_failed", status: 502 },
    ],
    [
      "a flat old error",
      event({ object: "error", message: "boom", code: 503 }),
      { code: "decode_failed", status: 503 },
    ],
    ["an abort", chunk({}, "abort"), { code: "decode_failed", status: 502 }],
  ];
  test.each(failures)("%s", async (_, bytes, expected) => {
    const { engine, commit, told, relay } = await relayed();
    engine.push(ROLE, bytes);
    await settled();
    expect(commit.state).toBeInstanceOf(Failure);
    expect(commit.state).toMatchObject({ stage: "decode", ...expected });
    // The attempt decides what happens next; the call is not over.
    expect(told).not.toContain("ended");
    expect(await relay.next()).toBeUndefined();
  });

  test("a cut before an answer is unreachable; a clean end without one is a failed answer", async () => {
    for (const [how, code] of [
      ["cut", "decode_unreachable"],
      ["end", "decode_failed"],
    ] as const) {
      const { engine, commit } = await relayed();
      engine.push(ROLE)[how]();
      await settled();
      expect(commit.state).toMatchObject({ code, status: 502, kind: "cut" });
    }
  });

  test("a failing prefill tail", async () => {
    const { engine, commit, task } = await relayed();
    engine.push(ROLE);
    failPrefill(task, "status");
    await settled();
    expect(commit.state).toMatchObject({ code: "prefill_failed", status: 503, stage: "prefill" });
  });
});

describe("an answer that is its own finish", () => {
  test("commits when it is released, not when it came", async () => {
    const { engine, commit, task, drain } = await relayed();
    engine.push(chunk({ content: "yes" }, "stop"), DONE);
    await settled();
    expect(commit.state).toBe("pending");
    settlePrefill(task);
    await settled();
    expect(commit.state).toBe("committed");
    expect(await drain()).toBe(chunk({ content: "yes" }, "stop") + DONE);
  });

  test("is a real status when the tail fails in time", async () => {
    const { engine, commit, task } = await relayed();
    engine.push(chunk({ content: "yes" }, "stop"), DONE);
    await settled();
    failPrefill(task, "status");
    await settled();
    expect(commit.state).toMatchObject({ code: "prefill_failed", status: 503 });
  });
});

describe("input logprobs come from prefill, so the first answer waits for it", () => {
  const editor = {
    everyEvent: false,
    needsTail: true,
    edit: (data: string, _meaning: unknown, tail: unknown) =>
      tail === undefined ? undefined : data.replace('"hi"', '"hi+tail"'),
  };

  test("however long it takes, and nothing is read meanwhile", async () => {
    const { engine, commit, task, clock, read } = await relayed({ options: { editor } });
    engine.push(say("hi"), say("more"));
    await clock.advance(60_000);
    expect(commit.state).toBe("pending");
    expect(engine.pulls).toBe(1);
    settlePrefill(task);
    expect(await read()).toBe(say("hi+tail"));
    expect(await read()).toBe(say("more"));
  });

  test("even when the answer and its finish come in one piece: settleMs does not release it without them", async () => {
    const { engine, commit, task, clock, drain } = await relayed({ options: { editor }, limits: { settleMs: 50 } });
    engine.push(say("hi") + finish() + DONE);
    await clock.advance(10_000);
    expect(commit.state).toBe("pending");
    settlePrefill(task);
    expect(await drain()).toBe(say("hi+tail") + finish() + DONE);
  });
});
