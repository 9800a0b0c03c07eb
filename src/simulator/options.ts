import type { Clock } from "../runtime/clock.ts";
import type { Fabric } from "./fabric.ts";

export type SimulatedEngineName = "sglang" | "vllm" | "trtllm" | "openai";
export type SimulatedRole = "prefill" | "decode" | "aggregated";
export type SimulatedConnector = "nixl" | "nixl-push" | "mooncake";

/** How long things take. Milliseconds; 0 = at once, for the limits 0 = never. */
export interface Timing {
  /** Per prompt token that the prefix cache does not hold. */
  prefillMsPerToken: number;
  /** Between two tokens (inter-token latency). */
  itlMs: number;
  /** Moving one request's KV blocks from prefill to decode. */
  transferMs: number;
  /** How long prefill keeps the blocks of a hand-off that nobody reads (vLLM, TensorRT-LLM). */
  leaseMs: number;
  /** How long one leg waits for the other (SGLang, NIXL push, Mooncake). */
  pairMs: number;
  /** How long decode tries to reach a prefill engine's side channel that does not answer. */
  dialMs: number;
}

export const defaultTiming: Timing = {
  prefillMsPerToken: 0.1,
  itlMs: 10,
  transferMs: 2,
  leaseMs: 30_000,
  pairMs: 300_000,
  dialMs: 5_000,
};

export interface SimulatedEngineOptions {
  engine: SimulatedEngineName;
  role: SimulatedRole;
  /** Name the engine serves; requests for other models are 404, as in the engines. */
  model?: string;
  /** Further served names (LoRA adapters). */
  adapters?: readonly string[];
  /** What hand-offs call this engine; a NIXL push decode must be told it by configuration. Random unless given. */
  engineId?: string;
  /** vLLM only: how the KV blocks travel. */
  connector?: SimulatedConnector;
  /** Links the engines of one process; one per test or demo. A new one when left out. */
  fabric?: Fabric;
  /** Port of this engine's side channel: SGLang's bootstrap port, vLLM's and TensorRT-LLM's KV port. */
  sidePort?: number;
  /** Host that hand-offs name for the side channel. */
  sideHost?: string;
  timing?: Partial<Timing>;
  /** Faults of every generation request, in the notation of `parseFault`. */
  faults?: readonly string[];
  /** The fabric's clock unless told. */
  clock?: Clock;
  /** Longest prompt plus answer, in tokens. */
  maxModelLen?: number;
  /** Data-parallel ranks the engine reports. */
  dpSize?: number;
  /** Tokens an answer has when nothing else limits it; by default a function of the prompt (8–32). */
  answerTokens?: number;
}

/** The side port an engine has when none is named: what the real ones and the router's configuration default to. */
export function defaultSidePort(engine: SimulatedEngineName, connector: SimulatedConnector): number {
  if (engine === "sglang" || (engine === "vllm" && connector === "mooncake")) return 8998;
  return engine === "trtllm" ? 5700 : 5600;
}
