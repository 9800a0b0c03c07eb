import { describe, expect, test } from "bun:test";
import type { EngineAnswer, SplitPlan } from "../../src/engines/dialect.ts";
import { prefillSource } from "../../src/engines/prefill-source.ts";
import { sglang } from "../../src/engines/sglang.ts";
import { vllmNixl } from "../../src/engines/vllm-nixl.ts";
import { Failure } from "../../src/errors/failure.ts";
import { answer, chatAnswer, request, target } from "./request.ts";

const early = () => sglang.plan(request('{"model":"m"}'), target, "id-1");
const sequential = () => vllmNixl.plan(request('{"model":"m"}'), target, "id-1");
const lost = new Failure("prefill_unreachable", { status: 502, stage: "prefill", kind: "cut", message: "gone" });

describe("a prefill leg as a stream of outputs", () => {
  test("an early hand-off is read before there is any answer", async () => {
    const plan = early();
    const reader = prefillSource(plan, new Promise<EngineAnswer>(() => {})).getReader();
    expect(await reader.read()).toEqual({ done: false, value: { data: plan.early } });
  });

  test("then the judged answer, then the end", async () => {
    const reader = prefillSource(early(), Promise.resolve(answer(chatAnswer("length")))).getReader();
    await reader.read();
    const second = await reader.read();
    expect(second.value!.data!.completionUsage).toEqual({ promptTokensDetails: { cached_tokens: 8 } });
    expect(second.done).toBe(false);
    expect((await reader.read()).done).toBe(true);
    expect((await reader.read()).done).toBe(true);
  });

  test("without an early hand-off the answer is the first output", async () => {
    const reader = prefillSource(sequential(), Promise.resolve(answer(chatAnswer("stop")))).getReader();
    expect((await reader.read()).value!.data!.finishReason).toEqual({ kind: "stop" });
    expect((await reader.read()).done).toBe(true);
  });

  test("a transport's failure is an error output, and the same object", async () => {
    for (const plan of [early(), sequential()]) {
      const reader = prefillSource(plan, Promise.reject(lost)).getReader();
      if (plan.early !== undefined) await reader.read();
      expect((await reader.read()).value!.error).toBe(lost);
      expect((await reader.read()).done).toBe(true);
    }
  });

  test("an answer that fails is no unhandled rejection when nobody reads on", async () => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", note);
    prefillSource(early(), Promise.reject(lost)).getReader();
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  test("a judge that throws is an error output", async () => {
    const broken: SplitPlan = {
      ...sequential(),
      judge: () => {
        throw lost;
      },
    };
    expect(
      (
        await prefillSource(broken, Promise.resolve(answer("")))
          .getReader()
          .read()
      ).value!.error,
    ).toBe(lost);
  });

  test("a cancelled reader is done", async () => {
    const reader = prefillSource(early(), Promise.resolve(answer(""))).getReader();
    await reader.cancel();
    expect((await reader.read()).done).toBe(true);
  });
});
