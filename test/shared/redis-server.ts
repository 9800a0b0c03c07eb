import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The server that is installed here: Redis or Valkey. */
export const SERVER = ["redis-server", "valkey-server"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);

/** A real server on loopback, with nothing kept on disk; stopped and started again at the same port. */
export class RedisServer {
  readonly port: number;
  readonly #password: string | undefined;
  readonly #folder = mkdtempSync(join(tmpdir(), "prefill-router-redis-"));
  #child: ChildProcess | undefined;

  private constructor(port: number, password: string | undefined) {
    this.port = port;
    this.#password = password;
  }

  static async start(password?: string): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), password);
    await server.up();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async up(): Promise<void> {
    if (SERVER === undefined) throw new Error("No redis-server and no valkey-server is installed");
    const args = ["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    if (this.#password !== undefined) args.push("--requirepass", this.#password);
    this.#child = spawn(SERVER, args, { cwd: this.#folder, stdio: "ignore" });
    for (let tries = 0; tries < 200; tries++) {
      if (await answers(this.port)) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error("The server did not start");
  }

  /** As a machine that is gone. */
  async down(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  /** As a machine that answers nothing any more, or does again. */
  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(name);
  }

  async stop(): Promise<void> {
    await this.down();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

export async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
