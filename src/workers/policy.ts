import type { PolicyName } from "../config/policies.ts";
import type { Worker } from "./worker.ts";

/** What a policy may look at. The two texts are made only when a policy asks: most never do. */
export interface ChoiceInput {
  /** Estimated prompt tokens: characters ÷ 4. */
  readonly tokens: number;
  /** The prompt as text whose start stays equal over the turns of a conversation (the raw JSON of `messages` will do). */
  prompt(): string;
  /** What a session's requests have in common (`sessionKey`). */
  session(): string;
}

/** Who is said, by other routers too, to have the beginning of a prompt cached: a worker's name, and how many tokens. */
export interface Told {
  worker: string;
  tokens: number;
}

/**
 * How a worker is chosen. One instance serves one role of one pool and may keep state of its own (cursors, the prefix index).
 * Nothing here is asynchronous: a choice and its count of load happen in the same tick, so two choices never see the same state.
 */
export interface Policy {
  readonly name: PolicyName;
  /**
   * One of the candidates, all usable; undefined only for an empty list. A list that has not changed is the same array again,
   * so a policy may keep what it has derived from it. `told` is one more hint, for policies that look for prefixes.
   */
  choose(candidates: readonly Worker[], input: ChoiceInput, told?: Told): Worker | undefined;
  /**
   * Told once which worker the request goes to. Returns the tokens of the prompt that worker is expected to have cached already:
   * they are no queued work.
   */
  observe?(worker: Worker, input: ChoiceInput): number;
  /** The most tokens of the prompt that any of the candidates is expected to have cached. */
  reuse?(candidates: readonly Worker[], input: ChoiceInput): number;
  /** A worker has left for good: what is known of its cache is worthless. */
  forget?(worker: Worker): void;
}
