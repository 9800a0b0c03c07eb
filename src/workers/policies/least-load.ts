import type { ChoiceInput, Policy } from "../policy.ts";
import type { Worker } from "../worker.ts";
import { LeastPressure } from "./pressure.ts";

/** The worker with the least in hand, by requests and prompt tokens against its weight; ties go round. */
export class LeastLoad implements Policy {
  readonly name = "least-load";
  readonly #least = new LeastPressure();

  choose(candidates: readonly Worker[], input: ChoiceInput): Worker | undefined {
    return this.#least.find(candidates, input.tokens);
  }
}
