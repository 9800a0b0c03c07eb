import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { choose } from "../../src/workers/choose.ts";
import { choosePath, type PathFacts, pathIn } from "../../src/workers/split-choice.ts";
import { fleetConfig, makeFleet, makeInput, poolConfig, workerConfig } from "./fixtures.ts";

const strict = { minPromptTokens: 0, onNoPrefill: "reject" } as const;
const fallback = { minPromptTokens: 0, onNoPrefill: "decode-only" } as const;
const short = { minPromptTokens: 512, onNoPrefill: "reject" } as const;

function facts(more: Partial<PathFacts> = {}): PathFacts {
  return {
    engine: "vllm",
    splits: true,
    tokens: 1000,
    cachedTokens: 0,
    prefill: true,
    decode: true,
    aggregated: false,
    hasAggregated: false,
    hasSplit: true,
    ...more,
  };
}

describe("choosePath", () => {
  test("splits whenever it can be had", () => {
    expect(choosePath(facts(), strict)).toEqual({ path: "disaggregated" });
    expect(choosePath(facts({ aggregated: true, hasAggregated: true, tokens: 1 }), strict)).toEqual({
      path: "disaggregated",
    });
  });

  test("without prefill it is 503, never silently decode's work; only the configured fallback changes that", () => {
    expect(choosePath(facts({ prefill: false }), strict)).toEqual({ refusal: "no_prefill_workers" });
    expect(choosePath(facts({ prefill: false }), fallback)).toEqual({ path: "decode-only" });
    expect(choosePath(facts({ prefill: false, decode: false }), fallback)).toEqual({ refusal: "no_prefill_workers" });
    expect(choosePath(facts({ decode: false }), fallback)).toEqual({ refusal: "no_decode_workers" });
  });

  test("aggregated workers step in for either leg", () => {
    const more = { aggregated: true, hasAggregated: true };
    expect(choosePath(facts({ ...more, prefill: false }), strict)).toEqual({ path: "aggregated" });
    expect(choosePath(facts({ ...more, decode: false }), strict)).toEqual({ path: "aggregated" });
  });

  test("short prompts skip prefill, counted without what decode has cached", () => {
    expect(choosePath(facts({ tokens: 511 }), short)).toEqual({ path: "decode-only" });
    expect(choosePath(facts({ tokens: 512 }), short)).toEqual({ path: "disaggregated" });
    expect(choosePath(facts({ tokens: 4000, cachedTokens: 3600 }), short)).toEqual({ path: "decode-only" });
    expect(choosePath(facts({ tokens: 10, aggregated: true, hasAggregated: true }), short)).toEqual({
      path: "aggregated",
    });
  });

  test("a short prompt is split all the same when nobody can take it whole", () => {
    expect(choosePath(facts({ engine: "sglang", tokens: 10 }), short)).toEqual({ path: "disaggregated" });
  });

  test("an endpoint that cannot be split goes to an aggregated worker, or is refused for what it is", () => {
    expect(choosePath(facts({ splits: false, aggregated: true, hasAggregated: true }), strict)).toEqual({
      path: "aggregated",
    });
    expect(choosePath(facts({ splits: false, hasAggregated: true }), strict)).toEqual({ refusal: "no_decode_workers" });
    expect(choosePath(facts({ splits: false }), fallback)).toEqual({ refusal: "endpoint" });
  });

  test("never names a path whose workers are not there, nor decode alone on sglang", () => {
    const any = fc.record({
      engine: fc.constantFrom("sglang" as const, "vllm" as const, "trtllm" as const),
      splits: fc.boolean(),
      tokens: fc.integer({ min: 0, max: 2000 }),
      cachedTokens: fc.integer({ min: 0, max: 2000 }),
      prefill: fc.boolean(),
      decode: fc.boolean(),
      aggregated: fc.boolean(),
      hasAggregated: fc.constant(true),
      hasSplit: fc.boolean(),
    });
    fc.assert(
      fc.property(any, fc.constantFrom(strict, fallback, short), (given, rules) => {
        const choice = choosePath(given, rules);
        if ("refusal" in choice) return expect(given.aggregated).toBe(false);
        if (choice.path === "disaggregated")
          expect([given.splits, given.prefill, given.decode]).toEqual([true, true, true]);
        if (choice.path === "aggregated") expect(given.aggregated).toBe(true);
        if (choice.path === "decode-only") {
          expect(given.decode).toBe(true);
          expect(given.engine).not.toBe("sglang");
        }
      }),
    );
  });
});

describe("pathIn", () => {
  function vllmPool(policy: "prefix-aware" | "least-load") {
    const pool = poolConfig("v", { engine: "vllm", prefill: [workerConfig("p")], decode: [workerConfig("d")] });
    const models = [{ id: "m", aliases: [], adapters: [], pools: [pool] }];
    return makeFleet(fleetConfig({ models, policy: { prefill: policy, decode: policy } })).model("m")!.pools[0]!;
  }

  test("the second turn of a conversation that decode has cached skips prefill", () => {
    const pool = vllmPool("prefix-aware");
    const first = makeInput("turn one ".repeat(1000));
    expect(pathIn(pool, first, true, short, 0)).toEqual({ path: "disaggregated" });
    choose(pool, "decode", first, { now: 0 })!.release();
    const second = makeInput(`${first.prompt()} and a short question`);
    expect(pathIn(pool, second, true, short, 0)).toEqual({ path: "decode-only" });
  });

  test("the prompt is not looked at when it decides nothing", () => {
    const pool = vllmPool("prefix-aware");
    const input = {
      tokens: 1000,
      session: () => "",
      prompt: () => {
        throw new Error("read");
      },
    };
    expect(pathIn(pool, input, true, strict, 0)).toEqual({ path: "disaggregated" });
    expect(pathIn(pool, { ...input, tokens: 5 }, true, short, 0)).toEqual({ path: "decode-only" });
  });
});
