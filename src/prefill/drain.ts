import { errorInStream, finishFailure, type PrefillError } from "./errors.ts";
import type { EngineOutput, PrefillOutput, PrefillReader } from "./output.ts";
import type { Background, Guard } from "./ports.ts";
import type { PrefillTail, PrefillTask } from "./task.ts";
import type { RequestTracker } from "./tracker.ts";

/**
 * Reads the rest of a prefill stream to its end and settles `task`: at the first failure, or at the good end. The promise never
 * rejects and resolves when the stream has ended and the guard is released, so it can be handed to `waitUntil` as it is.
 *
 * Reading goes on after a failure: the worker is busy with the request until its stream ends, and the guard stands for that.
 */
export async function drainTail(
  task: PrefillTask,
  reader: PrefillReader,
  tail: PrefillTail,
  tracker: RequestTracker | undefined,
  guard: Guard | undefined,
  background: Background,
): Promise<void> {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (task.outcome !== null) continue;
      const failure = judgeLater(value, tail);
      if (failure !== undefined) task.settle({ ok: false, error: failure });
    }
  } catch (error) {
    task.settle({ ok: false, error: errorInStream(error) });
  }
  try {
    if (task.outcome === null) tracker?.recordPrefillComplete();
    // Before the task settles: whoever hears of the end finds the worker's load already given back.
    guard?.release();
  } catch (error) {
    background.fault?.(error);
  }
  task.settle({ ok: true, tail });
}

/** Takes from an output that is not the first what the tail still lacks. Answers with its failure, if it is one. */
export function judgeLater(output: PrefillOutput | undefined, tail: PrefillTail): PrefillError | undefined {
  if (output === undefined) return undefined;
  if (isError(output)) return errorInStream(output.error);
  if (output.data === undefined) return undefined;
  gather(output.data, tail);
  return finishFailure(output.data);
}

/** The first output that has a detail wins: engines repeat or empty them towards the end. */
export function gather(output: EngineOutput, tail: PrefillTail): void {
  tail.promptTokensDetails ??= output.completionUsage?.promptTokensDetails;
  tail.inputLogprobs ??= output.inputLogprobs;
}

/** `error: null` is how some sources write "no error". */
export function isError(output: PrefillOutput): boolean {
  return output.error !== undefined && output.error !== null;
}
