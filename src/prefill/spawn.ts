import { consumePrefillStream } from "./consume.ts";
import { errorOutput, finishFailure, PrefillError } from "./errors.ts";
import type { PrefillStream } from "./output.ts";
import type { Guard, TaskPorts } from "./ports.ts";
import { type PrefillOutcome, PrefillTask } from "./task.ts";
import type { RequestTracker } from "./tracker.ts";

export interface SpawnPorts extends TaskPorts {
  guard?: Guard | undefined;
}

/**
 * Runs a whole prefill in the background, for callers that know the hand-off without its answer. `permit` (the prefill phase) is
 * released first and in this tick, so that decode may enter while prefill runs. The task succeeds when the stream has ended well and
 * led to a hand-off, or to an answer that is no failure; otherwise it holds the `PrefillError`. Nothing here throws or rejects.
 */
export function spawnPrefillTask(
  stream: PrefillStream,
  tracker: RequestTracker | undefined,
  permit: Guard | undefined,
  ports: SpawnPorts,
): PrefillTask {
  permit?.release();
  const task = new PrefillTask(ports);
  ports.background.run(runPrefill(task, stream, tracker, ports));
  return task;
}

async function runPrefill(
  task: PrefillTask,
  stream: PrefillStream,
  tracker: RequestTracker | undefined,
  ports: SpawnPorts,
): Promise<void> {
  try {
    const { background, clock, limits, guard } = ports;
    const completion = await consumePrefillStream(stream, { tracker, guard, background, clock, limits });
    if (completion.kind === "terminal") {
      const { output } = completion;
      const error = finishFailure(output);
      const tail = {
        promptTokensDetails: output.completionUsage?.promptTokensDetails,
        inputLogprobs: output.inputLogprobs,
      };
      task.settle(error === undefined ? { ok: true, tail } : { ok: false, error });
    } else if (completion.completion !== undefined) {
      completion.completion.onSettled(function pass(outcome: PrefillOutcome) {
        task.settle(outcome);
      });
    } else {
      const { promptTokensDetails, inputLogprobs } = completion.result;
      task.settle({ ok: true, tail: { promptTokensDetails, inputLogprobs } });
    }
  } catch (error) {
    task.settle({ ok: false, error: error instanceof PrefillError ? error : errorOutput(error) });
  }
}
