import { describe, expect, test } from "bun:test";
import { BatchedSink } from "../../src/telemetry/batched-sink.ts";
import { Timestamps } from "../../src/telemetry/timestamps.ts";

describe("batched sink", () => {
  test("gathers lines until it is flushed, and writes them in one piece", () => {
    const writes: string[] = [];
    const { push, flush } = bound(new BatchedSink((text) => writes.push(text)));
    push("a");
    push("b");
    expect(writes).toEqual([]);
    flush();
    flush();
    expect(writes).toEqual(["a\nb\n"]);
  });

  test("writes by itself once 64 KiB have come together, and loses nothing", () => {
    const writes: string[] = [];
    const sink = new BatchedSink((text) => writes.push(text));
    const line = "x".repeat(1023);
    for (let i = 0; i < 100; i++) sink.push(line);
    expect(writes.map((text) => text.length)).toEqual([65_536]);
    sink.flush();
    expect(writes.join("").split("\n")).toHaveLength(101);
  });

  test("a write that fails costs its lines, counted, and the next go on", () => {
    const writes: string[] = [];
    let broken = true;
    const sink = new BatchedSink((text) => {
      if (broken) throw new Error("EPIPE");
      writes.push(text);
    });
    sink.push("a");
    sink.push("b");
    sink.flush();
    expect(sink.lost).toBe(2);
    broken = false;
    sink.push("c");
    sink.flush();
    expect(writes).toEqual(["c\n"]);
    expect(sink.lost).toBe(2);
  });
});

describe("timestamps", () => {
  test("are what Date would print, within a second and across", () => {
    const timestamps = new Timestamps();
    for (const wall of [0, 7, 99, 999, 1000, 1_795_926_147_123, 1_795_926_147_009, 1_795_926_148_000, 999.9, -1]) {
      expect(timestamps.format(wall)).toBe(new Date(Math.floor(wall)).toISOString());
    }
  });
});

function bound(sink: BatchedSink): { push: (line: string) => void; flush: () => void } {
  return { push: sink.push, flush: () => sink.flush() };
}
