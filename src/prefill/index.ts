/**
 * The heart on its own: what a prefill stream means, and how decode's stream is forwarded while prefill is still running.
 * No HTTP, no engine, no framework; streams in, streams out.
 */
export { type ConsumeOptions, consumePrefillStream, type PrefillCompletion, type PrefillResult } from "./consume.ts";
export { NoDisaggregatedParams, PrefillError, type PrefillErrorCode } from "./errors.ts";
export { type ForwardPorts, type ForwardRules, forwardDecode } from "./forward.ts";
export type {
  EngineOutput,
  FinishReason,
  PrefillOutput,
  PrefillReader,
  PrefillStream,
  PromptTokensDetails,
  RawJson,
} from "./output.ts";
export type { Background, Clock, Guard, Limits, TaskPorts } from "./ports.ts";
export { bootstrapRoom, bootstrapRooms, type RandomBits, roomRank, roomsText, roomText } from "./room.ts";
export { type SpawnPorts, spawnPrefillTask } from "./spawn.ts";
export { type PrefillOutcome, type PrefillTail, PrefillTask, type SettledObserver } from "./task.ts";
export { type Phase, PhasePermit, RequestTracker } from "./tracker.ts";
