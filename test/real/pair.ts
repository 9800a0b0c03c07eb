import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * A running pair of real vLLM engines (NIXL) and an aggregated server of the same model, all three with `--enable-auto-tool-choice` and a
 * `--tool-call-parser`, told by the environment:
 *
 * - `REAL_AGG`, `REAL_PREFILL`, `REAL_DECODE`: base URLs, by default ports 8600, 8601, 8602 of this machine
 * - `REAL_CONNECTOR`: `nixl` (default) or `nixl-push`; the latter needs prefill's `REAL_ENGINE_ID`, `REAL_KV_HOST` and `REAL_KV_PORT`
 * - `REAL_KILL_PREFILL`, `REAL_KILL_DECODE`: shell commands that kill an engine at once; something else has to start it again
 */
export const agg = process.env.REAL_AGG ?? "http://127.0.0.1:8600";
export const prefill = process.env.REAL_PREFILL ?? "http://127.0.0.1:8601";
export const decode = process.env.REAL_DECODE ?? "http://127.0.0.1:8602";
export const killPrefill = process.env.REAL_KILL_PREFILL;
export const killDecode = process.env.REAL_KILL_DECODE;
export const connector = process.env.REAL_CONNECTOR ?? "nixl";
/** What a push connector's decode has to be told of prefill. */
export const pushTarget =
  connector === "nixl-push"
    ? {
        engineId: process.env.REAL_ENGINE_ID,
        kvHost: process.env.REAL_KV_HOST ?? "127.0.0.1",
        kvPort: Number(process.env.REAL_KV_PORT ?? 5600),
      }
    : {};

/** An engine that was killed needs so long to load again, on a busy machine. */
const RESTART_MS = 120_000;

/** The name of the model they serve. Throws with plain words when one of them does not answer. */
export async function modelOfPair(): Promise<string> {
  for (const [name, url] of [
    ["REAL_AGG", agg],
    ["REAL_PREFILL", prefill],
    ["REAL_DECODE", decode],
  ] as const) {
    if (await healthy(url)) continue;
    throw new Error(
      `There is no real engine to test against: nothing answers at ${url}. Start a vLLM prefill/decode pair with the NIXL connector and an aggregated server of the same model, and name this one by ${name}.`,
    );
  }
  const models = (await (await fetch(`${agg}/v1/models`)).json()) as { data: { id: string }[] };
  return models.data[0]!.id;
}

export async function healthy(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })).ok;
  } catch {
    return false;
  }
}

/** Sum of a metric over its labels; `labels` picks series, such as `source="local_compute"`. 0 where there is none. */
export async function metric(url: string, name: string, labels = ""): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  let sum = 0;
  for (const line of text.split("\n")) {
    if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) continue;
    if (line.includes(labels)) sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  }
  return sum;
}

/** Neither engine holds a block or a request any more: every hand-off has been fetched, long before its lease ends. */
export async function untilIdle(ms: number): Promise<void> {
  // What has just been sent is not counted yet.
  await Bun.sleep(200);
  await until(async () => {
    for (const url of [prefill, decode]) {
      if ((await metric(url, "vllm:num_requests_running")) > 0) return false;
      if ((await metric(url, "vllm:kv_cache_usage_perc")) > 0) return false;
    }
    return true;
  }, ms);
}

export async function until(met: () => Promise<boolean>, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await met())) {
    if (performance.now() > end) throw new Error(`Not so after ${ms} ms`);
    await Bun.sleep(50);
  }
}

/** Runs a command that kills an engine. Resolves when the engine has been seen down. */
export async function kill(command: string, url: string): Promise<void> {
  const child = Bun.spawn(["sh", "-c", command], { stdout: "ignore", stderr: "inherit" });
  if ((await child.exited) !== 0) throw new Error(`The command to kill ${url} has failed: ${command}`);
  await until(async () => !(await healthy(url)), 10_000);
}

export async function untilRestarted(url: string): Promise<void> {
  await until(() => healthy(url), RESTART_MS);
}

/**
 * An engine's front door that can be held shut: requests wait before it, so that a test may do something between the legs. It passes on
 * bytes, ends and resets, and a refused connection as a reset.
 */
export class Gate {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Requests that came. */
  posts = 0;
  /** Awaited by each request before it goes on. */
  hold: (() => Promise<void>) | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(to: string): Promise<Gate> {
    const { hostname, port } = new URL(to);
    const server = createServer({ allowHalfOpen: true });
    const gate = new Gate(server);
    server.on("connection", (client) => gate.#pass(client, hostname, Number(port)));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return gate;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #pass(client: Socket, host: string, port: number): void {
    const engine = connect({ host, port, allowHalfOpen: true });
    for (const [one, other] of [
      [client, engine],
      [engine, client],
    ] as const) {
      this.#sockets.add(one);
      one.setNoDelay(true);
      one.on("error", () => other.resetAndDestroy());
      one.on("end", () => other.end());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
    }
    engine.on("data", (bytes) => client.write(bytes));
    client.on("data", (bytes: Buffer) => void this.#forward(client, engine, bytes));
  }

  async #forward(client: Socket, engine: Socket, bytes: Buffer): Promise<void> {
    if (bytes.subarray(0, 5).toString() === "POST ") {
      this.posts++;
      client.pause();
      await this.hold?.();
      client.resume();
    }
    engine.write(bytes);
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
