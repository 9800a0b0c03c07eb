import { type ChildProcess, spawn } from "node:child_process";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { sleep } from "./client.ts";

const LISTEN = `
  const server = require("node:net").createServer();
  server.listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => console.log(server.address().port));
`;

/**
 * An address where a connection never opens, on loopback: a listener that has been stopped, with its queue of connections full, so that
 * the kernel drops what comes next. A host that is gone behaves so.
 */
export class DeafWorker {
  url = "";
  readonly #child: ChildProcess;
  readonly #waiting: Socket[] = [];

  constructor() {
    // Bun does not pass the backlog on.
    this.#child = spawn(join(import.meta.dir, "..", "..", "node_modules", ".bin", "node"), ["-e", LISTEN], {
      stdio: ["ignore", "pipe", "ignore"],
    });
  }

  async start(): Promise<this> {
    const port = await new Promise<number>((resolve) =>
      this.#child.stdout?.once("data", (bytes: Buffer) => resolve(Number(String(bytes)))),
    );
    this.url = `http://127.0.0.1:${port}`;
    this.#child.kill("SIGSTOP");
    await sleep(50);
    for (let i = 0; i < 6; i++) {
      const socket = connect({ host: "127.0.0.1", port });
      socket.on("error", () => {});
      this.#waiting.push(socket);
      await sleep(20);
    }
    return this;
  }

  stop(): void {
    for (const socket of this.#waiting) socket.destroy();
    this.#child.kill("SIGKILL");
  }
}
