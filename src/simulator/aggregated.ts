import type { RoleCall } from "./role.ts";
import { type Ready, runGeneration } from "./run.ts";
import type { Script } from "./script.ts";
import { computePrompts } from "./state.ts";

/** An engine that does both parts itself. */
export function aggregatedRole(call: RoleCall): Promise<Script> {
  const { state, request, ask, faults } = call;

  async function ready(): Promise<Ready> {
    return { cached: await computePrompts(state, ask, request.signal), garbage: "" };
  }

  return runGeneration({
    state,
    request,
    ask,
    faults,
    ready,
    headFirst: state.engine === "vllm",
    inputLogprobs: true,
    firstTokenMs: 0,
  });
}
