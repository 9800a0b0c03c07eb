import { describe, expect, test } from "bun:test";
import { Failure } from "../../src/errors/failure.ts";
import { Log, type LogLevel } from "../../src/telemetry/log.ts";
import { createMask, maskAddresses } from "../../src/telemetry/mask.ts";
import { streamedRecord, TRACE, WALL } from "./hand-made.ts";

function makeLog(options: { level?: LogLevel; prompts?: boolean; secrets?: string[] } = {}) {
  const lines: string[] = [];
  const mask = createMask(options.secrets ?? []);
  const log = new Log((line) => lines.push(line), {
    level: options.level ?? "debug",
    prompts: options.prompts ?? false,
    wallNow: () => WALL,
    mask: (text) => maskAddresses(mask(text)),
  });
  const read = (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return { log, lines, read };
}

describe("the line of a request", () => {
  test("tells who, how and the times of both legs", () => {
    const { log, read } = makeLog();
    log.request(streamedRecord({ clientKey: "team-a", settleWaitMs: 1.239 }));
    expect(read()).toEqual([
      {
        ts: "2026-11-30T04:22:27.123Z",
        level: "info",
        event: "request",
        id: "req-1",
        trace_id: TRACE,
        route: "/v1/chat/completions",
        model: "demo-model",
        stream: true,
        client: "team-a",
        outcome: "success",
        status: 200,
        path: "disaggregated",
        pool: "default",
        prefill: "p0",
        decode: "d0",
        attempts: 1,
        duration_ms: 574,
        queue_ms: 1,
        prefill_ms: 100,
        handoff_ms: 2,
        decode_headers_ms: 6,
        first_token_ms: 124,
        decode_ms: 470,
        settle_wait_ms: 1.24,
        prompt_tokens: 120,
        cached_tokens: 64,
        completion_tokens: 19,
        bytes_in: 500,
        bytes_out: 2000,
        chunks: 10,
      },
    ]);
  });

  test("tells what went wrong and leaves out what did not happen", () => {
    const { log, read } = makeLog();
    log.request(
      streamedRecord({
        prefillDoneAt: 0,
        decodeSentAt: 1002,
        committedAt: 0,
        decodeHeadersAt: 0,
        status: 504,
        outcome: "timeout",
        code: "prefill_timeout",
        stage: "prefill",
        openDrains: 1,
      }),
    );
    const [line] = read();
    expect(line).toMatchObject({
      level: "warn",
      code: "prefill_timeout",
      stage: "prefill",
      status: 504,
      prefill_open: true,
    });
    for (const absent of [
      "prefill_ms",
      "handoff_ms",
      "first_token_ms",
      "decode_headers_ms",
      "late_failure",
      "error_frame",
    ]) {
      expect(line).not.toHaveProperty(absent);
    }
  });

  test("is one line whatever an id holds", () => {
    const { log, lines, read } = makeLog();
    log.request(streamedRecord({ id: 'a"b\\c\nd\u2028' }));
    expect(lines[0]).not.toContain("\n");
    expect(read()[0]?.id).toBe('a"b\\c\nd\u2028');
  });

  test("shows a prompt only where prompts are opened, keys masked even then", () => {
    const closed = makeLog();
    closed.log.request(streamedRecord(), "tell me SECRET5");
    expect(closed.lines[0]).not.toContain("SECRET5");
    const open = makeLog({ prompts: true, secrets: ["sk-worker-key"] });
    open.log.request(streamedRecord(), "tell me SECRET5, sk-worker-key");
    expect(open.read()[0]?.prompt).toBe("tell me SECRET5, ***");
  });

  test.each([
    ["success", 200, {}, "info"],
    ["client_cancel", 499, {}, "info"],
    ["rejected", 429, {}, "info"],
    ["rejected", 503, {}, "warn"],
    ["prefill_failed", 400, {}, "info"],
    ["decode_failed", 200, { errorFrame: true }, "warn"],
    ["success", 200, { lateFailure: "cut", lateFailureWhen: "after_end" }, "warn"],
    ["internal", 500, {}, "error"],
  ] as const)("outcome %s with status %d and %p has its level", (outcome, status, changes, level) => {
    const { log, read } = makeLog();
    log.request(streamedRecord({ outcome, status, ...changes }));
    expect(read()[0]?.level).toBe(level);
  });
});

describe("levels", () => {
  test.each([
    ["debug", 4],
    ["info", 3],
    ["warn", 2],
    ["error", 1],
    ["silent", 0],
  ] as const)("at %s, %d of four events are written", (level, count) => {
    const { log, lines } = makeLog({ level });
    for (const each of ["debug", "info", "warn", "error"] as const) log.event(each, "something");
    expect(lines).toHaveLength(count);
    expect(log.enabled("debug")).toBe(level === "debug");
  });

  test("a request below the level writes nothing", () => {
    const { log, lines } = makeLog({ level: "warn" });
    log.request(streamedRecord());
    expect(lines).toEqual([]);
    log.request(streamedRecord({ status: 502, outcome: "decode_failed" }));
    expect(lines).toHaveLength(1);
  });
});

describe("the end of a tail", () => {
  test("is a line of its own that tells prefill's time after all", () => {
    const { log, read } = makeLog();
    log.tailEnded(streamedRecord({ prefillDoneAt: 1902, tailEndedAt: 1902 }), false);
    log.tailEnded(streamedRecord({ prefillDoneAt: 0, tailEndedAt: 21574 }), true);
    expect(read()).toMatchObject([
      { level: "info", event: "prefill_tail_ended", id: "req-1", prefill_ms: 900, outlived_ms: 328 },
      { level: "warn", cut: true, outlived_ms: 20000 },
    ]);
  });
});

describe("no credential and no prompt at any level", () => {
  const secrets = ["SECRET1", "SECRET2", "SECRET3"];

  test("whatever an event is given", () => {
    const { log, lines } = makeLog({ level: "debug", secrets: ["SECRET2"] });
    const cause = new SyntaxError('Unexpected token: "SECRET5"');
    log.event("debug", "everything", {
      authorization: "Bearer SECRET3",
      "x-api-key": "SECRET3",
      apiKey: "SECRET3",
      url: "http://u:SECRET1@host:1/v1?api_key=SECRET3",
      address: new URL("http://u:SECRET1@host:1/"),
      reason: "refused Bearer SECRET3 and SECRET2",
      headers: new Headers({ authorization: "SECRET3", "x-api-key": "SECRET3", cookie: "SECRET3", accept: "*/*" }),
      nested: { deep: [{ password: "SECRET1", messages: [{ content: "SECRET5" }] }] },
      map: new Map([["token", "SECRET1"]]),
      SECRET2: 1,
      prompt: "SECRET5",
      messages: ["SECRET5"],
      engine_message: "bad input: SECRET5",
      failure: new Failure("prefill_failed", { status: 502, stage: "prefill", message: "worker said SECRET5", cause }),
    });
    const line = lines[0]!;
    for (const secret of [...secrets, "SECRET5"]) expect(line).not.toContain(secret);
    expect(JSON.parse(line)).toMatchObject({
      authorization: "***",
      url: "http://***@host:1/v1?api_key=***",
      headers: { accept: "*/*", authorization: "***" },
      failure: {
        name: "Failure",
        code: "prefill_failed",
        stage: "prefill",
        status: 502,
        cause: { name: "SyntaxError" },
      },
    });
  });

  test("opened prompts show engines' words and still no credential", () => {
    const { log, lines, read } = makeLog({ prompts: true, secrets: ["SECRET2"] });
    log.event("warn", "prefill_failed", {
      engine_message: "bad input: SECRET5 for SECRET2",
      authorization: "SECRET3",
      error: new Error("said SECRET5 and SECRET2"),
    });
    expect(read()[0]).toMatchObject({
      engine_message: "bad input: SECRET5 for ***",
      error: { message: "said SECRET5 and ***" },
    });
    expect(lines[0]).not.toContain("SECRET3");
  });

  test("a fault of our own keeps its message and where it was thrown", () => {
    const { log, read } = makeLog();
    const error = new TypeError("undefined is not a function");
    log.event("error", "internal_fault", { error });
    const shown = read()[0]?.error as { message: string; at: string[] };
    expect(shown.message).toBe("undefined is not a function");
    expect(shown.at[0]).toContain("log.test.ts");
  });

  test("a message of many lines does not pass for a stack", () => {
    const { log, lines } = makeLog();
    log.event("warn", "x", { error: new Error("first\n    SECRET5\n    at SECRET5 (home:1:2)") });
    expect(lines[0]).not.toContain("SECRET5");
  });
});

describe("events", () => {
  test("print values JSON has no word for, and survive a loop", () => {
    const { log, read } = makeLog();
    const loop: Record<string, unknown> = { n: 1 };
    loop.self = loop;
    log.event("info", "odd", {
      big: 12345678901234567890n,
      loop,
      none: null,
      missing: undefined,
      call: () => 1,
      yes: true,
    });
    expect(read()[0]).toMatchObject({ big: "12345678901234567890", none: null, yes: true, loop: { n: 1 } });
  });

  test("a field cannot take the place of the line's own members", () => {
    const { log, read } = makeLog();
    log.event("info", "odd", { level: "error", ts: 0 });
    expect(read()[0]).toMatchObject({ level: "info", event: "odd", field_level: "error", field_ts: 0 });
  });

  test("a sink that throws loses its lines and harms nobody", () => {
    const log = new Log(
      () => {
        throw new Error("disk full");
      },
      { level: "info", prompts: false, wallNow: () => WALL, mask: (text) => text },
    );
    log.request(streamedRecord());
    log.event("info", "x");
    expect(log.lost).toBe(2);
  });
});
