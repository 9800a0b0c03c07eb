import { join } from "node:path";
import type { Subprocess } from "bun";
import { readLines } from "./lines.ts";
import { LOAD_CORE, pinned } from "./machine.ts";
import type { EngineCommand, EngineGroup, EngineStats, Journal, Shape } from "./protocol.ts";

const ENTRY = join(import.meta.dir, "engine", "main.ts");

/** The engines' process, seen from the driver. */
export class EngineFleet {
  readonly #process: Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncGenerator<string>;

  private constructor(groups: readonly EngineGroup[]) {
    this.#process = Bun.spawn(pinned(LOAD_CORE, [process.execPath, ENTRY, JSON.stringify(groups)]), {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    this.#lines = readLines(this.#process.stdout);
  }

  /** Resolves when all ports are open; rejects when one is taken. Whoever starts it stops it. */
  static async start(groups: readonly EngineGroup[]): Promise<EngineFleet> {
    const fleet = new EngineFleet(groups);
    await fleet.#answer();
    return fleet;
  }

  get pid(): number {
    return this.#process.pid;
  }

  async shape(shape: Shape): Promise<void> {
    await this.#ask({ do: "shape", shape });
  }

  async stats(group: string): Promise<EngineStats> {
    return (await this.#ask({ do: "stats", group })) as EngineStats;
  }

  /** What has happened since it was last asked. */
  async journal(): Promise<Journal> {
    return (await this.#ask({ do: "journal" })) as Journal;
  }

  /** Ends all streams that are silent, well. */
  async finish(): Promise<number> {
    return ((await this.#ask({ do: "finish" })) as { count: number }).count;
  }

  async stop(): Promise<void> {
    this.#process.kill();
    await this.#process.exited;
  }

  async #ask(command: EngineCommand): Promise<unknown> {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`);
    await this.#process.stdin.flush();
    return this.#answer();
  }

  async #answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true)
      throw new Error("The engines' process has ended. If its ports are taken by another bench, set BENCH_BASE_PORT");
    return JSON.parse(value as string);
  }
}
