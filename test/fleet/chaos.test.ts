import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import type { ChaosReport } from "./chaos-run.ts";

const LIMIT_MS = 25_000;

test(
  "workers are killed, hang, restart, drain and are reloaded under 500 clients: nothing is lost or mixed up but what a killed worker had begun",
  async () => {
    const child = Bun.spawn([process.execPath, fileURLToPath(new URL("./chaos-run.ts", import.meta.url))], {
      env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: "65336" },
      stdout: "pipe",
      stderr: "inherit",
    });
    const report = JSON.parse(await new Response(child.stdout).text()) as ChaosReport;
    const told = JSON.stringify(report);
    // The test itself must have done what it says.
    expect(report.requests, told).toBe(3000);
    expect(report.peak, told).toBeGreaterThan(250);
    expect(report.killed, told).toBeGreaterThan(20);
    expect(report.events.length, told).toBe(12);

    expect(report.wrong, told).toEqual([]);
    expect(report.good + report.left + report.cut + report.timedOut, told).toBe(report.requests);
    expect(report.cut, told).toBeLessThanOrEqual(report.killed);
    expect(report.timedOut, told).toBeLessThanOrEqual(report.hung);
    expect(report.lowest, told).toBe(0);
    expect(report.atRest, told).toEqual([]);
    expect(report.seconds, told).toBeLessThan(LIMIT_MS / 1000);
  },
  LIMIT_MS,
);
