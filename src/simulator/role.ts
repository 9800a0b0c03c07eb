import type { Ask } from "./ask.ts";
import type { Fault } from "./faults.ts";
import type { Script, SimRequest } from "./script.ts";
import type { EngineState } from "./state.ts";

/** What a role is given: a request that was read and passed the engine's general checks. */
export interface RoleCall {
  state: EngineState;
  request: SimRequest;
  ask: Ask;
  /** Faults of content; those of the connection are played around the role. */
  faults: readonly Fault[];
}

/** One engine in one role. Throws Refusal for its own errors, ClientLeft when the client is gone. */
export type Role = (call: RoleCall) => Promise<Script>;

/** The ask as a leg of one token sees it: the engine stops after the first, whatever the client wanted. */
export function oneToken(ask: Ask): Ask {
  return { ...ask, maxTokens: 1, minTokens: 0, ignoreEos: false };
}
