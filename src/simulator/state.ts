import type { Clock } from "../runtime/clock.ts";
import type { Ask } from "./ask.ts";
import { createFabric, type Fabric } from "./fabric.ts";
import {
  defaultSidePort,
  defaultTiming,
  type SimulatedConnector,
  type SimulatedEngineName,
  type SimulatedEngineOptions,
  type SimulatedRole,
  type Timing,
} from "./options.ts";
import { PrefixCache } from "./prefix-cache.ts";
import type { SideChannel } from "./side-channel.ts";
import { sleep } from "./time.ts";

/** What an engine has seen; plain numbers, for assertions and for `/metrics`. */
export interface EngineStats {
  /** Generation requests that came in. */
  requests: number;
  /** Clients that left before their answer was complete. */
  aborts: number;
  /** Decode requests without a hand-off, computed locally (vLLM). */
  local: number;
  /** Hand-offs read a second time, after their lease, or for another prompt: answered with wrong text. */
  reused: number;
  expired: number;
  mismatched: number;
  /** Hand-offs that could not be read at all. */
  failedReads: number;
  /** Requests whose blocks came from prefill as they should. */
  pulled: number;
  /** Answers from a prefix cache that wrong blocks had poisoned. */
  poisoned: number;
  /** Waits that ended at `pairMs`. */
  pairTimeouts: number;
  /** Times the engine died of a malformed hand-off. */
  deaths: number;
}

/** One engine from the inside. Roles read and write it; nothing outside the simulator does. */
export interface EngineState {
  readonly engine: SimulatedEngineName;
  readonly role: SimulatedRole;
  readonly connector: SimulatedConnector;
  readonly model: string;
  readonly names: ReadonlySet<string>;
  readonly clock: Clock;
  readonly timing: Timing;
  readonly fabric: Fabric;
  /** Prefill engines only. */
  readonly side: SideChannel | undefined;
  readonly sideHost: string;
  readonly sidePort: number;
  readonly maxModelLen: number;
  readonly dpSize: number;
  readonly answerTokens: number | undefined;
  readonly engineId: string;
  readonly cache: PrefixCache;
  /** Prompts whose cached blocks are wrong. */
  readonly poisoned: Set<string>;
  readonly stats: EngineStats;
  /** Aborts when the engine dies; work that outlives its request hangs on it. */
  life: AbortController;
}

export function createState(options: SimulatedEngineOptions): EngineState {
  const fabric = options.fabric ?? createFabric(options.clock === undefined ? {} : { clock: options.clock });
  const model = options.model ?? "demo-model";
  const connector = options.connector ?? "nixl";
  const sidePort = options.sidePort ?? chooseSidePort(options, fabric, connector);
  return {
    engine: options.engine,
    role: options.role,
    connector,
    model,
    names: new Set([model, ...(options.adapters ?? [])]),
    clock: options.clock ?? fabric.clock,
    timing: { ...defaultTiming, ...options.timing },
    fabric,
    side: options.role === "prefill" ? fabric.open(sidePort) : undefined,
    sideHost: options.sideHost ?? "127.0.0.1",
    sidePort,
    maxModelLen: options.maxModelLen ?? 1_048_576,
    dpSize: options.dpSize ?? 1,
    answerTokens: options.answerTokens,
    engineId: options.engineId ?? crypto.randomUUID(),
    cache: new PrefixCache(),
    poisoned: new Set(),
    stats: {
      requests: 0,
      aborts: 0,
      local: 0,
      reused: 0,
      expired: 0,
      mismatched: 0,
      failedReads: 0,
      pulled: 0,
      poisoned: 0,
      pairTimeouts: 0,
      deaths: 0,
    },
    life: new AbortController(),
  };
}

/**
 * Engines whose hand-offs name their port get one each, so that a restart of one forgets its own blocks only. A
 * bootstrap port is in the router's configuration instead and stays what it is, even if two engines then share it.
 */
function chooseSidePort(options: SimulatedEngineOptions, fabric: Fabric, connector: SimulatedConnector): number {
  let port = defaultSidePort(options.engine, connector);
  const named = options.role === "prefill" && (options.engine === "trtllm" || connector === "nixl");
  while (named && options.engine !== "sglang" && fabric.isOpen(port)) port += 1;
  return port;
}

/** Computes the prompts: takes the time that the uncached tokens cost. Resolves to the cached ones. */
export async function computePrompts(state: EngineState, ask: Ask, signal: AbortSignal): Promise<number> {
  let cached = 0;
  let tokens = 0;
  for (const prompt of ask.prompts) {
    cached += state.cache.admit(prompt);
    tokens += prompt.tokens;
  }
  await sleep(state.clock, (tokens - cached) * state.timing.prefillMsPerToken, signal);
  return cached;
}

/** The engine process is gone: every connection breaks, new ones are refused until it is started again. */
export function die(state: EngineState): void {
  state.stats.deaths += 1;
  state.life.abort();
}
