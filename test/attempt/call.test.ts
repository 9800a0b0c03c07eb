import { expect, test } from "bun:test";
import { Call } from "../../src/attempt/call.ts";
import { Interruptible } from "../../src/attempt/interruptible.ts";
import { usageOf } from "../../src/attempt/usage.ts";
import type { GenerationRequest } from "../../src/engines/dialect.ts";
import { ClientGone, Failure } from "../../src/errors/failure.ts";
import { SharedHeaders } from "../../src/legs/shared-headers.ts";
import { createRecord } from "../../src/telemetry/record.ts";
import { rejection } from "../legs/hand-made.ts";

function makeCall(): Call {
  return new Call({
    request: {} as GenerationRequest,
    outgoing: new SharedHeaders([]),
    record: createRecord(0, 0),
    choice: { tokens: 0, prompt: () => "", session: () => "" },
    background: { run() {} },
  });
}

test("the first reason to stop stands, and late listeners hear it at once", () => {
  const call = makeCall();
  const heard: string[] = [];
  call.onStop((why) => heard.push(why.name));
  const off = call.onStop(() => heard.push("taken back"));
  off();
  call.stop(new Failure("shutting_down", { status: 503, stage: "router", message: "x" }));
  call.leave();
  call.onStop((why) => heard.push(why.name));
  expect(heard).toEqual(["Failure", "Failure"]);
});

test("a signal that fires after the end, as on some runtimes, stops nothing", () => {
  const call = makeCall();
  call.done(undefined);
  call.leave();
  expect(call.stopped).toBeUndefined();
  expect(call.record.outcome).toBe("success");
});

test("the first outcome stands", () => {
  const call = makeCall();
  let ends = 0;
  call.onDone(() => ends++);
  call.done(new Failure("decode_timeout", { status: 504, stage: "decode", message: "x" }));
  call.done(new ClientGone());
  expect(ends).toBe(1);
  expect(call.record).toMatchObject({ outcome: "timeout", code: "decode_timeout", stage: "decode" });
});

test("a wait ends with the first interruption, and so does every later one", async () => {
  const wait = new Interruptible();
  const never = new Promise<void>(() => {});
  const first = rejection(wait.wait(never));
  const why = new ClientGone();
  wait.interrupt(why);
  wait.interrupt(new Error("later"));
  expect(await first).toBe(why);
  // The promise's own failure is then nobody's news, least of all an unhandled rejection.
  expect(await rejection(wait.wait(Promise.reject(new Error("echo"))))).toBe(why);
  expect(wait.by).toBe(why);
});

test("usage is read where it stands at the end, not where a prompt talks of it", () => {
  const record = createRecord(0, 0);
  usageOf(
    record,
    '{"choices":[{"message":{"content":"\\"usage\\": {\\"prompt_tokens\\": 999}"}}],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}',
    "chat",
  );
  expect(record).toMatchObject({ promptTokens: 12, completionTokens: 3, cachedTokens: 8 });
});
