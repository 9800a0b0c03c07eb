import { type SimulatorServer, serveHandler } from "../../src/runtime/simulator-tcp.ts";
import { jsonScript, type Script, type SimRequest, silentScript } from "../../src/simulator/script.ts";
import { DeafWorker } from "./deaf.ts";

/** One request as an engine saw it. */
export interface Seen {
  engine: string;
  path: string;
  headers: Headers;
  body: string;
  at: number;
  /** When its socket was gone before the script had ended; 0 = it was not. */
  leftAt: number;
  /** When the script had played to its end; 0 = not yet. */
  endedAt: number;
}

export type Play = (request: SimRequest, seen: Seen) => Script | Promise<Script>;

/** Plays of one scenario, by engine name ("sg-p", "sg-d", …). */
export type Plays = Readonly<Record<string, Play | Script>>;

export const ENGINES = [
  "sg-p",
  "sg-d",
  "vl-p",
  "vl-d",
  "tr-p",
  "tr-d",
  "agg",
  "r1-p",
  "r2-p",
  "r-d",
  "once-p",
  "once-d",
] as const;

const TAG = /scenario-[0-9]+/;

/**
 * Engines on real sockets that play what the scenario wants, told apart by a tag in the prompt: so all scenarios can run side by side
 * against one router, as they do in life.
 */
export class Engines {
  readonly #servers = new Map<string, SimulatorServer>();
  readonly #plays = new Map<string, Plays>();
  readonly #seen = new Map<string, Seen[]>();
  #count = 0;
  /** Answers to probes, by engine. */
  readonly health = new Map<string, number>();
  readonly deaf = new DeafWorker();

  async start(): Promise<this> {
    for (const name of ENGINES) {
      this.#servers.set(name, await serveHandler((request) => this.#handle(name, request), { idleCloseMs: 5_000 }));
    }
    await this.deaf.start();
    return this;
  }

  url(name: (typeof ENGINES)[number]): string {
    return this.#servers.get(name)!.url;
  }

  /** A new scenario's tag, to stand in its prompt. */
  scenario(plays: Plays): string {
    this.#count += 1;
    const tag = `scenario-${this.#count}`;
    this.#plays.set(tag, plays);
    return tag;
  }

  seen(tag: string, engine?: string): Seen[] {
    return (this.#seen.get(tag) ?? []).filter((seen) => engine === undefined || seen.engine === engine);
  }

  async stop(): Promise<void> {
    this.deaf.stop();
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }

  async #handle(engine: string, request: SimRequest): Promise<Script> {
    if (request.method === "GET") {
      if (request.path === "/v1/models")
        return jsonScript(200, '{"object":"list","data":[{"id":"sg","object":"model"}]}');
      return jsonScript(this.health.get(engine) ?? 200, "{}");
    }
    const tag = TAG.exec(request.body)?.[0] ?? "";
    const seen: Seen = {
      engine,
      path: request.path,
      headers: request.headers,
      body: request.body,
      at: performance.now(),
      leftAt: 0,
      endedAt: 0,
    };
    const all = this.#seen.get(tag) ?? [];
    this.#seen.set(tag, all);
    all.push(seen);
    request.signal.addEventListener("abort", () => {
      if (seen.endedAt === 0) seen.leftAt = performance.now();
    });
    const play = this.#plays.get(tag)?.[engine];
    // Not foreseen: a reset, which no scenario takes for success.
    if (play === undefined) return silentScript("rst");
    const script = typeof play === "function" ? await play(request, seen) : { ...play };
    script.onEnd = (how) => {
      if (how === "sent") seen.endedAt = performance.now();
    };
    return script;
  }
}
