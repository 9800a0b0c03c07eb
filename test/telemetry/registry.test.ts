import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Axis, Counter, Gauge, Registry, WorkerCounter } from "../../src/telemetry/registry.ts";
import { readExposition, sampleOf } from "./hand-made.ts";

describe("label axes", () => {
  test("an unknown value is the fallback, however many there are", () => {
    const axis = new Axis("model", ["a", "b"]);
    expect(axis.size).toBe(3);
    for (let i = 0; i < 1000; i++) expect(axis.values[axis.index(`unknown-${i}`)]).toBe("other");
    expect(axis.values).toEqual(["other", "a", "b"]);
    expect(axis.values[axis.index("b")]).toBe("b");
  });

  test("an axis with room takes that many further values and no more", () => {
    const axis = new Axis("reason", ["cut"], "other", 2);
    const first = axis.index("x");
    axis.index("y");
    expect(axis.index("z")).toBe(0);
    expect(axis.index("x")).toBe(first);
    expect(axis.values).toEqual(["other", "cut", "x", "y"]);
    expect(axis.size).toBe(4);
  });

  test("values that are told later are let in as long as there is room, and nobody else's are", () => {
    const axis = new Axis("model", ["a"], "other", 2, true);
    expect(axis.index("a client's word")).toBe(0);
    axis.learn(["a", "b", "c", "d"]);
    expect(["a", "b", "c", "d"].map((value) => axis.index(value))).toEqual([1, 2, 3, 0]);
    expect([axis.values, axis.size]).toEqual([["other", "a", "b", "c"], 4]);
  });

  test("a configured value that is twice in the list, or is the fallback itself, has one place", () => {
    const axis = new Axis("model", ["a", "a", "other"]);
    expect(axis.values).toEqual(["other", "a"]);
  });

  test("names of Object.prototype are values like any other", () => {
    const axis = new Axis("model", ["a"]);
    for (const name of ["__proto__", "constructor", "toString", ""]) expect(axis.index(name)).toBe(0);
  });
});

describe("counters", () => {
  test("every combination of labels has a child of its own", () => {
    const rows = new Axis("row", ["a", "b"]);
    const columns = new Axis("column", ["x", "y", "z"]);
    const registry = new Registry();
    const counter = registry.add(new Counter("c_total", "Cells.", [rows, columns]));
    let n = 0;
    for (const row of rows.values) {
      for (const column of columns.values) counter.add(rows.index(row) * columns.size + columns.index(column), ++n);
    }
    const { samples } = readExposition(registry.render());
    expect(samples).toHaveLength(12);
    n = 0;
    for (const row of rows.values) {
      for (const column of columns.values) expect(sampleOf(registry.render(), "c_total", { row, column })).toBe(++n);
    }
  });

  test("small counters show their zeros before they count, large ones and fallbacks only what was counted", () => {
    const registry = new Registry();
    registry.add(new Counter("plain_total", "Plain."));
    registry.add(new Counter("small_total", "Small.", [new Axis("a", ["x", "y"], "other", 3)]));
    const many = Array.from({ length: 64 }, (_, i) => `v${i}`);
    const large = registry.add(new Counter("large_total", "Large.", [new Axis("a", many)]));
    large.add(5, 1);
    const { samples, types } = readExposition(registry.render());
    expect(samples).toEqual([
      { name: "plain_total", labels: {}, value: 0 },
      { name: "small_total", labels: { a: "x" }, value: 0 },
      { name: "small_total", labels: { a: "y" }, value: 0 },
      { name: "large_total", labels: { a: "v4" }, value: 1 },
    ]);
    expect(types.get("large_total")).toBe("counter");
  });

  test("a worker that has gone takes its children with it", () => {
    const registry = new Registry();
    const counter = registry.add(new WorkerCounter("probes_total", "Probes.", new Axis("result", ["ok", "failed"])));
    for (let i = 0; i < 50; i++) counter.add(`w${i}`, "ok");
    counter.add("w1", "failed");
    counter.add("w1", "failed");
    expect(sampleOf(registry.render(), "probes_total", { worker: "w1", result: "failed" })).toBe(2);
    counter.keep(new Set(["w1"]));
    expect(readExposition(registry.render()).samples).toHaveLength(2);
  });
});

describe("text format", () => {
  test("any label value comes back as it was", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.constantFrom("", '"', "\\", "\n", '\\"', "\\n"), (text, hard) => {
        const value = `${text}${hard}${text}`;
        const registry = new Registry();
        registry.add(new Gauge("g", "One\nline \\ only.", (emit) => emit(1, [["worker", value]])));
        const { samples } = readExposition(registry.render());
        expect(samples).toEqual([{ name: "g", labels: { worker: value }, value: 1 }]);
      }),
    );
  });

  test("a help text stays on its line", () => {
    const registry = new Registry();
    registry.add(new Gauge("g", "a\nb\\c", (emit) => emit(Number.POSITIVE_INFINITY)));
    expect(registry.render()).toBe("# HELP g a\\nb\\\\c\n# TYPE g gauge\ng +Inf\n");
  });

  test("one name cannot be registered twice", () => {
    const registry = new Registry();
    registry.add(new Counter("c_total", "C."));
    expect(() => registry.add(new Counter("c_total", "C."))).toThrow('Metric "c_total" exists already');
  });
});
