import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Loading the code on a busy machine. */
const START_MS = 15_000;

/** `prefill-router serve --config FILE` as a process of its own: signals, exit codes and sockets are the real ones. */
export class RouterProcess {
  readonly port: number;
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #texts: { out: string; err: string };

  private constructor(child: Bun.Subprocess<"ignore", "pipe", "pipe">, texts: { out: string; err: string }) {
    this.#child = child;
    this.#texts = texts;
    this.port = listeningPort(texts.out) ?? 0;
  }

  /** Resolves when it accepts requests. Rejects with what it wrote when it does not come up. */
  static async start(config: Record<string, unknown>, env: Record<string, string> = {}): Promise<RouterProcess> {
    const folder = await mkdtemp(join(tmpdir(), "prefill-router-"));
    const file = join(folder, "router.json");
    await writeFile(file, JSON.stringify({ listen: { port: 0 }, ...config }));
    const child = Bun.spawn([process.execPath, "src/cli.ts", "serve", "--config", file], {
      cwd: root,
      env: { ...process.env, ...env },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const texts = { out: "", err: "" };
    void collect(child.stdout, (text) => {
      texts.out += text;
    });
    void collect(child.stderr, (text) => {
      texts.err += text;
    });
    void child.exited.then(() => rm(folder, { recursive: true, force: true }));
    const end = performance.now() + START_MS;
    while (listeningPort(texts.out) === undefined) {
      if (child.exitCode !== null || performance.now() > end) {
        child.kill("SIGKILL");
        throw new Error(`The router did not start (exit code ${child.exitCode}):\n${texts.err}${texts.out}`);
      }
      await Bun.sleep(10);
    }
    return new RouterProcess(child, texts);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Everything it has written so far, both streams. */
  get output(): string {
    return this.#texts.out + this.#texts.err;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  signal(name: "SIGTERM" | "SIGINT"): void {
    this.#child.kill(name);
  }

  /** The exit code; -1 when a signal ended it. Rejects when it still runs after `ms`. */
  async exit(ms: number): Promise<number> {
    const code = await Promise.race([this.#child.exited, Bun.sleep(ms).then(() => undefined)]);
    if (code === undefined) throw new Error(`Still running after ${ms} ms:\n${this.output}`);
    return this.#child.signalCode === null ? code : -1;
  }

  /** Ends it whatever it does: no test leaves a process behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.running) this.#child.kill("SIGKILL");
    await this.#child.exited;
  }
}

function listeningPort(text: string): number | undefined {
  const port = /^listening on http:\/\/.*:(\d+)$/m.exec(text)?.[1];
  return port === undefined ? undefined : Number(port);
}

async function collect(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) take(decoder.decode(chunk, { stream: true }));
}
