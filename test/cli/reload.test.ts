import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEngine } from "./engines.ts";

const HEADERS = { authorization: "Bearer admin-key" };
let folder: string;
let file: string;
let serve: Bun.Subprocess<"ignore", "pipe", "pipe">;
let url: string;
const out = { text: "" };
const err = { text: "" };

async function collect(stream: ReadableStream<Uint8Array>, into: { text: string }): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of stream) into.text += decoder.decode(bytes, { stream: true });
}

async function until(what: string, met: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 160; i++) {
    if (await met()) return;
    await Bun.sleep(25);
  }
  throw new Error(`Waited in vain: ${what}\n${out.text}\n${err.text}`);
}

const config = (model: string, more = "") =>
  `{ listen: { port: 0 }, auth: { adminKeyEnv: ADMIN }, models: [{ id: ${model}, pools: [{ engine: openai, workers: ["${engine}"] }] }] ${more}}`;
const engine = startEngine({ "/health": {} });
const served = async () => {
  const { workers } = (await (await fetch(`${url}/workers`, { headers: HEADERS })).json()) as {
    workers: { model_id: string }[];
  };
  return workers.map((worker) => worker.model_id).join();
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "reload-"));
  file = join(folder, "router.yaml");
  await writeFile(file, config("first"));
  serve = Bun.spawn([process.execPath, "src/cli.ts", "serve", "--config", file], {
    cwd: new URL("../..", import.meta.url).pathname,
    env: { ...process.env, ADMIN: "admin-key" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  void collect(serve.stdout, out);
  void collect(serve.stderr, err);
  await until("the start", () => out.text.includes("listening on "));
  url = /listening on (\S+)/.exec(out.text)![1]!;
});

afterAll(async () => {
  serve.kill();
  await serve.exited;
  await rm(folder, { recursive: true });
});

describe("a running router", () => {
  test("takes over a changed file by itself", async () => {
    expect(await served()).toBe("first");
    await writeFile(file, config("second"));
    await until("the second model", async () => (await served()) === "second");
  });

  test("keeps what it has when the file is bad, says why, and takes the next good one on SIGHUP", async () => {
    await writeFile(file, config("third", ", timeoutz: {}"));
    process.kill(serve.pid, "SIGHUP");
    await until("the refusal", () => err.text.includes("timeoutz: unknown key"));
    expect(err.text).toContain("configuration not reloaded (SIGHUP), the old one stays");
    expect(await served()).toBe("second");
    await writeFile(file, config("fourth"));
    process.kill(serve.pid, "SIGHUP");
    await until("the fourth model", async () => (await served()) === "fourth");
    await until("the log line", () => out.text.includes('"event":"config_refused"'));
  });

  test("says what a reload cannot change", async () => {
    await writeFile(file, config("fourth", ", log: { level: warn }"));
    process.kill(serve.pid, "SIGHUP");
    await until("the report", () => err.text.includes("a restart is needed for: log"));
  });
});
