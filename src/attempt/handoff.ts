import type { SplitPlan } from "../engines/dialect.ts";
import type { RawJson } from "../prefill/output.ts";
import type { PrefillTail } from "../prefill/task.ts";

/** A hand-off that prefill gave and decode has not read yet (sequential modes). */
export interface Handoff {
  params: RawJson;
  tail: PrefillTail;
  plan: SplitPlan;
  at: number;
}
