import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { BOUNDS, Histogram } from "../../src/telemetry/histogram.ts";
import { Axis } from "../../src/telemetry/registry.ts";
import { readExposition, sampleOf } from "./hand-made.ts";

function page(histogram: Histogram): string {
  const out: string[] = [];
  histogram.render(out);
  return out.join("");
}

describe("histogram", () => {
  test("a value on a bound belongs to that bound's bucket", () => {
    const histogram = new Histogram("h_seconds", "H.", [0.1, 1]);
    for (const seconds of [0.1, 0.10001, 1, 1.5]) histogram.observe(0, seconds);
    const text = page(histogram);
    expect(sampleOf(text, "h_seconds_bucket", { le: "0.1" })).toBe(1);
    expect(sampleOf(text, "h_seconds_bucket", { le: "1" })).toBe(3);
    expect(sampleOf(text, "h_seconds_bucket", { le: "+Inf" })).toBe(4);
    expect(sampleOf(text, "h_seconds_count")).toBe(4);
    expect(sampleOf(text, "h_seconds_sum")).toBeCloseTo(2.70001, 9);
  });

  test("buckets are cumulative and agree with a count of the observations by hand", () => {
    const bounds = BOUNDS.firstToken;
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 400, noNaN: true }), { maxLength: 60 }), (observations) => {
        const histogram = new Histogram("h_seconds", "H.", bounds);
        for (const seconds of observations) histogram.observe(0, seconds);
        const exposition = readExposition(page(histogram));
        for (const bound of bounds) {
          const below = observations.filter((seconds) => seconds <= bound).length;
          expect(sampleOf(exposition, "h_seconds_bucket", { le: String(bound) })).toBe(below);
        }
        expect(sampleOf(exposition, "h_seconds_count")).toBe(observations.length);
      }),
      { numRuns: 50 },
    );
  });

  test("a negative or unknown time is no observation", () => {
    const histogram = new Histogram("h_seconds", "H.", [1]);
    histogram.observe(0, -0.001);
    histogram.observe(0, Number.NaN);
    expect(sampleOf(page(histogram), "h_seconds_count")).toBe(0);
    expect(sampleOf(page(histogram), "h_seconds_sum")).toBe(0);
  });

  test("children do not touch each other, and those without an observation are not shown", () => {
    const model = new Axis("model", ["a", "b"]);
    const histogram = new Histogram("h_seconds", "H.", [1, 2], [model]);
    histogram.observe(model.index("b"), 5);
    histogram.observe(model.index("a"), 0.5);
    const text = page(histogram);
    expect(sampleOf(text, "h_seconds_bucket", { model: "a", le: "1" })).toBe(1);
    expect(sampleOf(text, "h_seconds_bucket", { model: "b", le: "2" })).toBe(0);
    expect(sampleOf(text, "h_seconds_sum", { model: "b" })).toBe(5);
    expect(text).not.toContain("other");
  });

  test("all bounds ascend", () => {
    for (const bounds of Object.values(BOUNDS)) {
      expect([...bounds].sort((a, b) => a - b)).toEqual([...bounds]);
      expect(new Set(bounds).size).toBe(bounds.length);
    }
  });
});
