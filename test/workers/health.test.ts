import { describe, expect, test } from "bun:test";
import type { EngineName } from "../../src/engines/dialect.ts";
import { type ProbeResult, WorkerHealth } from "../../src/workers/health.ts";
import { healthConfig } from "./fixtures.ts";

const ok: ProbeResult = { kind: "answer", status: 200 };
const down: ProbeResult = { kind: "error" };
const timeout: ProbeResult = { kind: "timeout" };

function probe(health: WorkerHealth, result: ProbeResult, now: number): void {
  health.begin(now);
  health.report(result, now);
}

describe("WorkerHealth", () => {
  test("is healthy until probes have shown otherwise, and again after enough good ones", () => {
    const changes: boolean[] = [];
    const health = new WorkerHealth("vllm", { ...healthConfig, failures: 2, successes: 2 }, (up) => changes.push(up));
    expect(health.healthy(0)).toBe(true);
    probe(health, down, 0);
    expect(health.healthy(0)).toBe(true);
    probe(health, down, 5000);
    expect(health.healthy(5000)).toBe(false);
    probe(health, ok, 10_000);
    expect(health.healthy(10_000)).toBe(false);
    probe(health, ok, 15_000);
    expect(health.healthy(15_000)).toBe(true);
    expect(changes.at(-1)).toBe(true);
  });

  test("failures must be in a row", () => {
    const health = new WorkerHealth("vllm", healthConfig);
    for (const result of [down, ok, down, ok, down]) probe(health, result, 0);
    expect(health.healthy(0)).toBe(true);
  });

  test("with interval 0 nothing is due and workers are taken as healthy", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, intervalMs: 0 });
    expect(health.due(1e9)).toBe(false);
    expect(health.healthy(1e9)).toBe(true);
  });

  test("a probe that times out while the worker answers live requests is no failure", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, failures: 1 });
    health.begin(10_000);
    health.answered(10_500);
    health.report(timeout, 12_000);
    expect(health.healthy(12_000)).toBe(true);
    health.begin(20_000);
    health.report(timeout, 22_000);
    expect(health.healthy(22_000)).toBe(false);
  });

  test("live answers excuse a slow probe, not a refused one", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, failures: 1 });
    health.begin(0);
    health.answered(10);
    health.report(down, 20);
    expect(health.healthy(20)).toBe(false);
  });

  test("sglang is asked at /ready; where that is 404, at once at /health and with patience", () => {
    const health = new WorkerHealth("sglang", { ...healthConfig, failures: 1 });
    expect(health.begin(0)).toEqual({ path: "/ready", timeoutMs: 2000 });
    health.report({ kind: "answer", status: 404 }, 5);
    expect(health.healthy(5)).toBe(true);
    expect(health.due(5)).toBe(true);
    expect(health.begin(5)).toEqual({ path: "/health", timeoutMs: 20_000 });
    health.report({ kind: "answer", status: 404 }, 6);
    expect(health.healthy(6)).toBe(false);
  });

  test("sglang that is down has to prove itself with a token at /health; up again, /ready is enough", () => {
    const health = new WorkerHealth("sglang", { ...healthConfig, failures: 1 });
    expect(health.begin(0).path).toBe("/ready");
    health.report(down, 1);
    expect(health.healthy(1)).toBe(false);
    expect(health.begin(5000)).toEqual({ path: "/health", timeoutMs: 20_000 });
    health.report({ kind: "answer", status: 503 }, 5001);
    expect(health.healthy(5001)).toBe(false);
    expect(health.begin(10_000).path).toBe("/health");
    health.report(ok, 10_001);
    expect(health.healthy(10_001)).toBe(true);
    expect(health.plan()).toEqual({ path: "/ready", timeoutMs: 2000 });
  });

  test("a configured path is asked of a worker that is down too, and the other engines keep theirs", () => {
    const live = new WorkerHealth("sglang", { ...healthConfig, failures: 1, path: "/live" });
    probe(live, down, 0);
    expect(live.plan()).toEqual({ path: "/live", timeoutMs: 2000 });
    const vllm = new WorkerHealth("vllm", { ...healthConfig, failures: 1 });
    probe(vllm, down, 0);
    expect(vllm.plan()).toEqual({ path: "/health", timeoutMs: 2000 });
  });

  test("a configured path is asked on every engine; the others default to /health", () => {
    expect(new WorkerHealth("sglang", { ...healthConfig, path: "/live" }).plan()).toEqual({
      path: "/live",
      timeoutMs: 2000,
    });
    expect(new WorkerHealth("sglang", { ...healthConfig, path: "/health" }).plan().timeoutMs).toBe(20_000);
    expect(new WorkerHealth("vllm", healthConfig).plan()).toEqual({ path: "/health", timeoutMs: 2000 });
  });

  test.each([
    ["vllm", 200, true],
    ["vllm", 401, true],
    ["vllm", 429, true],
    ["vllm", 404, false],
    ["vllm", 302, false],
    ["vllm", 503, false],
    ["openai", 404, true],
    ["openai", 500, false],
  ] as [EngineName, number, boolean][])("%s answering a probe with %d: healthy %p", (engine, status, healthy) => {
    const health = new WorkerHealth(engine, { ...healthConfig, failures: 1 });
    probe(health, { kind: "answer", status }, 0);
    expect(health.healthy(0)).toBe(healthy);
  });

  test("is not due while a probe is under way, and due again when that probe got lost", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, intervalMs: 1000, timeoutMs: 5000 });
    health.begin(0);
    expect(health.due(3000)).toBe(false);
    expect(health.due(6000)).toBe(true);
  });

  test("a failure of live traffic brings the next probe forward, but a burst of them makes no burst of probes", () => {
    const health = new WorkerHealth("vllm", healthConfig);
    probe(health, ok, 10_000);
    health.suspect(10_100);
    expect(health.due(10_100)).toBe(false);
    expect(health.due(11_250)).toBe(true);
    health.suspect(13_000);
    expect(health.due(13_000)).toBe(true);
  });

  test("a bad verdict that nobody renews goes stale, so a quiet hour cannot keep a worker out", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, failures: 1 });
    probe(health, down, 0);
    expect(health.changesAt).toBe(30_000);
    expect(health.healthy(29_999)).toBe(false);
    expect(health.healthy(30_000)).toBe(true);
    probe(health, down, 30_000);
    expect(health.healthy(30_001)).toBe(false);
  });

  test("a bad verdict stands as long as the probe that could change it may take", () => {
    const config = { ...healthConfig, intervalMs: 5_000, timeoutMs: 60_000, failures: 1 };
    const health = new WorkerHealth("vllm", config);
    probe(health, down, 0);
    health.begin(5_000);
    for (const now of [10_000, 31_000, 64_000]) expect(health.healthy(now)).toBe(false);
  });

  test("what a worker that was down has no route for is asked again when it is back", () => {
    const health = new WorkerHealth("sglang", { ...healthConfig, failures: 1, successes: 1 });
    probe(health, { kind: "answer", status: 404 }, 0);
    expect(health.plan().path).toBe("/health");
    probe(health, down, 5_000);
    probe(health, ok, 10_000);
    expect(health.plan().path).toBe("/ready");
  });

  test("a shorter interval counts from the last probe on, a longer one from the next probe on", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, intervalMs: 600_000 });
    probe(health, ok, 1_000);
    health.configure({ ...healthConfig, intervalMs: 5_000 });
    expect([health.due(5_999), health.due(6_000)]).toEqual([false, true]);
    health.begin(6_000);
    health.report(ok, 6_001);
    health.configure({ ...healthConfig, intervalMs: 60_000 });
    expect(health.due(11_000)).toBe(true);
  });

  test("with a shorter interval a probe that got lost is known for it sooner, but not before the patience it was sent with has ended", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, intervalMs: 600_000, timeoutMs: 30_000 });
    health.begin(1_000);
    for (const intervalMs of [5_000, 600_000, 5_000])
      health.configure({ ...healthConfig, intervalMs, timeoutMs: 2_000 });
    expect([health.due(35_999), health.due(36_000)]).toEqual([false, true]);
  });

  test("an interval that was 0 for a while leaves a probe that is due at once", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, intervalMs: 600_000 });
    probe(health, ok, 1_000);
    health.configure({ ...healthConfig, intervalMs: 0 });
    expect(health.due(1_001)).toBe(false);
    health.configure(healthConfig);
    expect(health.due(1_001)).toBe(true);
  });

  test("switching probes off at run time brings every worker back", () => {
    const health = new WorkerHealth("vllm", { ...healthConfig, failures: 1 });
    probe(health, down, 0);
    health.configure({ ...healthConfig, intervalMs: 0 });
    expect(health.healthy(1)).toBe(true);
  });
});
