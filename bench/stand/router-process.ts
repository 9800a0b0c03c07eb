import { openSync } from "node:fs";
import type { Subprocess } from "bun";
import { MODEL } from "./engine/replies.ts";
import { memoryMb, pinned, processTree, ROUTER_CORE } from "./machine.ts";

const READY_MS = 40_000;
const STEP_MS = 100;
/** While it is being started: the start-up time is as exact as this. */
const TRY_MS = 5;
const STOP_MS = 4_000;
const PORT_FREE_MS = 5_000;

export interface Command {
  command: readonly string[];
  cwd?: string;
  env?: Record<string, string>;
  /** Further header lines for each request. */
  headers?: string;
}

/** A router in a process of its own, bound to the router's core. */
export class RouterProcess {
  readonly port: number;
  readonly headers: string | undefined;
  readonly #process: Subprocess;
  idleMb = 0;
  startMs = 0;

  private constructor(what: Command, port: number, log: string) {
    const out = openSync(log, "w");
    this.port = port;
    this.headers = what.headers;
    this.#process = Bun.spawn(pinned(ROUTER_CORE, what.command), {
      cwd: what.cwd ?? "/tmp",
      env: { ...process.env, NODE_ENV: "production", ...what.env },
      stdin: "ignore",
      stdout: out,
      stderr: out,
    });
  }

  /** Resolves once it has answered a request; rejects with the reason if it does not within 40 s. */
  static async start(what: Command, port: number, log: string): Promise<RouterProcess> {
    // An answer from somebody else's router would be measured as this one's.
    if (await isOpen(port)) throw new Error(`Port ${port} is taken; BENCH_BASE_PORT names another`);
    const started = performance.now();
    const router = new RouterProcess(what, port, log);
    let why = "nothing listens";
    while (performance.now() - started < READY_MS) {
      if (router.#process.exitCode !== null) throw new Error(`It exited with ${router.#process.exitCode}; see ${log}`);
      why = await router.#try();
      if (why === "") {
        router.startMs = performance.now() - started;
        await Bun.sleep(300);
        router.idleMb = memoryMb(router.pids(), "VmRSS");
        return router;
      }
      await Bun.sleep(TRY_MS);
    }
    await router.stop();
    throw new Error(`It never served: ${why}; see ${log}`);
  }

  async #try(): Promise<string> {
    try {
      const [name, value] = this.headers?.split(": ", 2) ?? [];
      const response = await fetch(`http://127.0.0.1:${this.port}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", ...(name && value ? { [name]: value } : {}) },
        body: JSON.stringify({ model: MODEL, messages: [{ role: "user", content: "hi" }], max_tokens: 4 }),
        signal: AbortSignal.timeout(2_000),
      });
      const text = await response.text();
      return response.status === 200 ? "" : `${response.status} ${text.slice(0, 200)}`;
    } catch (error) {
      return String(error);
    }
  }

  pids(): number[] {
    return processTree(this.#process.pid);
  }

  get alive(): boolean {
    return this.#process.exitCode === null;
  }

  /** Ends the whole tree, and waits until the port is free for the next one. */
  async stop(): Promise<void> {
    const tree = this.pids();
    this.#process.kill("SIGTERM");
    await Promise.race([this.#process.exited, Bun.sleep(STOP_MS)]);
    for (const pid of tree) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // ended by itself
      }
    }
    for (const end = performance.now() + PORT_FREE_MS; performance.now() < end; await Bun.sleep(STEP_MS)) {
      if (!(await isOpen(this.port))) return;
    }
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } }).catch(() => undefined);
  socket?.terminate();
  return socket !== undefined;
}
