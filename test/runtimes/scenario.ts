import type { Exchange } from "./client.ts";
import type { Engines, Plays, Seen } from "./engines.ts";

export type RuntimeName = "bun" | "deno" | "node" | "workerd";

export interface AskOptions {
  /** Default true. */
  stream?: boolean;
  path?: string;
  method?: string;
  headers?: Record<string, string>;
  /** Of HTTP; default 1.1. */
  version?: "1.0";
  /** Further members of the body, as JSON text. */
  more?: Record<string, string>;
  /** In place of messages. */
  prompt?: Record<string, string>;
}

/** What a scenario has in hand: a router process of one runtime, and engines that play what it says. */
export interface Stage {
  runtime: RuntimeName;
  engines: Engines;
  /** Ports of the two routers. */
  plain: number;
  lively: number;
  /** Sends a request of a new scenario. */
  ask(model: string, plays: Plays, options?: AskOptions): { answer: Exchange; seen: (engine?: string) => Seen[] };
  /** The same to the lively router, with the team's key. */
  askLively(model: string, plays: Plays, options?: AskOptions): { answer: Exchange; seen: (engine?: string) => Seen[] };
  get(path: string, port?: number, headers?: Record<string, string>): Promise<Exchange>;
}

/** A promise about the router that holds on every runtime, unless `except` names those whose platform cannot. */
export interface Scenario {
  name: string;
  except?: readonly RuntimeName[];
  run(stage: Stage): Promise<void>;
}
