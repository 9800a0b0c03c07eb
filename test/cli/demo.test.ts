import { afterAll, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const running = new Set<{ kill(signal: NodeJS.Signals): void }>();

afterAll(() => {
  for (const demo of running) demo.kill("SIGKILL");
});

interface Demo {
  output: string;
  /** Resolves when the output matches; rejects when it does not in time. */
  shows(pattern: RegExp, ms?: number): Promise<RegExpExecArray>;
  /** Sends the signal of Ctrl-C; resolves with the exit code. */
  stop(): Promise<number | null>;
}

function startDemo(...flags: string[]): Demo {
  const child = Bun.spawn([process.execPath, "src/cli.ts", "demo", ...flags], {
    cwd: ROOT,
    stdout: "pipe",
    stderr: "pipe",
  });
  running.add(child);
  const demo: Demo = { output: "", shows, stop };
  void collect(child.stdout);
  void collect(child.stderr);
  return demo;

  async function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) demo.output += text;
  }

  async function shows(pattern: RegExp, ms = 10_000): Promise<RegExpExecArray> {
    for (const end = performance.now() + ms; ; ) {
      const found = pattern.exec(demo.output);
      if (found !== null) return found;
      if (performance.now() > end) throw new Error(`Expected ${pattern}, got:\n${demo.output}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async function stop(): Promise<number | null> {
    child.kill("SIGINT");
    await child.exited;
    running.delete(child);
    return child.exitCode;
  }
}

describe("demo", () => {
  test.skipIf(Bun.which("curl") === null)(
    "shows where the dashboard is and a curl that works as it is, answers one itself, and Ctrl-C ends everything",
    async () => {
      const demo = startDemo("--port", "0");
      const [, base] = await demo.shows(/dashboard {2}(http:\/\/\S+)\/\n/);
      const [, curl] = await demo.shows(/\n {2}(curl .+)\n/);

      // Pasted as it stands: an answer begins within a second, and it is a stream.
      const from = performance.now();
      const shell = Bun.spawn(["sh", "-c", `${curl} -s`], { stdout: "pipe" });
      const reader = shell.stdout.getReader();
      const first = new TextDecoder().decode((await reader.read()).value);
      expect(performance.now() - from).toBeLessThan(1_000);
      expect(first).toStartWith("data: {");
      let rest = first;
      for (let part = await reader.read(); !part.done; part = await reader.read())
        rest += new TextDecoder().decode(part.value);
      expect(rest).toEndWith("data: [DONE]\n\n");

      await demo.shows(/model {2}\S+/);
      await demo.shows(/prefill-\d → decode-\d, \d+ ms\n/);
      await demo.shows(/Ctrl-C/);
      expect((await fetch(`${base}/ready`)).status).toBe(200);

      const engines = [...demo.output.matchAll(/(?:prefill|decode)-\d {2,}(http:\S+)/g)].map(([, url]) => url!);
      expect(engines).toHaveLength(4);
      expect(await demo.stop()).toBe(0);
      for (const url of [base!, ...engines]) expect(await fetch(url).catch(() => "gone")).toBe("gone");
    },
  );

  test("a port that is taken is replaced by another, and said so", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    try {
      const demo = startDemo("--port", String(port));
      const [, other] = await demo.shows(new RegExp(`Port ${port} is taken, so the router listens on (\\d+)`));
      expect(Number(other)).not.toBe(port);
      await demo.shows(new RegExp(`listening on http://127\\.0\\.0\\.1:${other}`));
      expect((await fetch(`http://127.0.0.1:${other}/health`)).status).toBe(200);
      expect(await demo.stop()).toBe(0);
    } finally {
      taken.close();
    }
  });
});
