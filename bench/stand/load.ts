import { join } from "node:path";
import { readLines } from "./lines.ts";
import { LOAD_CORE, pinned } from "./machine.ts";
import type { LoadPlan, LoadResult } from "./protocol.ts";

const ENTRY = join(import.meta.dir, "load", "main.ts");

export const PLAIN_LOAD: LoadPlan = {
  host: "127.0.0.1",
  port: 0,
  stream: false,
  clients: 16,
  requests: 0,
  durationMs: 1_000,
  rampMs: 0,
  timeoutMs: 15_000,
  promptBytes: 512,
  maxTokens: 16,
  wantEvents: 0,
};

export interface Progress {
  open: number;
  errors: number;
}

/** Runs one load to its end. `progress` is told once a second how many streams of kind "i" are open. */
export async function runLoad(
  plan: LoadPlan,
  progress: (progress: Progress) => void | Promise<void> = () => {},
): Promise<LoadResult> {
  const child = Bun.spawn(pinned(LOAD_CORE, [process.execPath, ENTRY, JSON.stringify(plan)]), {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  try {
    for await (const line of readLines(child.stdout)) {
      const told = JSON.parse(line) as Progress | { result: LoadResult };
      if ("result" in told) return told.result;
      await progress(told);
    }
  } finally {
    child.kill();
    await child.exited;
  }
  throw new Error("The load generator ended without a result");
}
