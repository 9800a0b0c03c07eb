import { drainTail, gather, isError, judgeLater } from "./drain.ts";
import { errorInStream, errorOutput, NoDisaggregatedParams, noOutput } from "./errors.ts";
import type {
  EngineOutput,
  PrefillOutput,
  PrefillReader,
  PrefillStream,
  PromptTokensDetails,
  RawJson,
} from "./output.ts";
import type { Guard, TaskPorts } from "./ports.ts";
import { type PrefillTail, PrefillTask } from "./task.ts";
import type { RequestTracker } from "./tracker.ts";

export interface ConsumeOptions extends TaskPorts {
  tracker?: RequestTracker | undefined;
  /** Held until the stream ends (or is given up after an error), then released, once. */
  guard?: Guard | undefined;
}

/** What decode needs from prefill. */
export interface PrefillResult {
  /** Never absent: a prefill without them is no hand-off. */
  disaggregatedParams: RawJson;
  promptTokensDetails?: PromptTokensDetails | undefined;
  /** Only when prefill had already ended; else they come with the task's tail. */
  inputLogprobs?: unknown;
}

/**
 * - `terminal`: prefill's answer is the answer, decode is not needed
 * - `handoff`: decode can go on
 *
 * `completion` is there when the rest of the stream is still being read in the background.
 */
export type PrefillCompletion =
  | { kind: "terminal"; output: EngineOutput; completion: PrefillTask | undefined }
  | {
      kind: "handoff";
      result: PrefillResult;
      workerLink: { traceId: string; spanId: string } | undefined;
      completion: PrefillTask | undefined;
    };

/**
 * Reads a prefill stream as far as decode needs it. This is the meaning of a prefill stream, for all engines.
 *
 * A *bootstrap* output tells decode where to meet a prefill that is still running, so the rest of the stream is handed to the
 * background and the answer comes at once. Any other first output means that decode must wait: the stream is read to its end.
 *
 * The stream is this function's from the call on: it takes the one reader, and cancels it only when it gives the stream up after
 * an error outside the background. Rejects with a `PrefillError` and nothing else.
 */
export async function consumePrefillStream(stream: PrefillStream, options: ConsumeOptions): Promise<PrefillCompletion> {
  const { tracker, guard } = options;
  let draining = false;
  try {
    let reader: PrefillReader;
    let step: Step;
    try {
      reader = stream.getReader();
      step = await reader.read();
    } catch (error) {
      throw errorOutput(error);
    }
    const output = firstOutput(reader, step).data;
    const tail: PrefillTail = { promptTokensDetails: undefined, inputLogprobs: undefined };
    if (output !== undefined) gather(output, tail);

    if (output !== undefined && isBootstrap(output)) {
      const task = new PrefillTask(options);
      // Read before the drain may fill them in: the hand-off says what was known when decode left.
      const promptTokensDetails = tail.promptTokensDetails;
      draining = true;
      options.background.run(drainTail(task, reader, tail, tracker, guard, options.background));
      return conclude(output, { promptTokensDetails, inputLogprobs: undefined }, task);
    }

    tracker?.recordPrefillComplete();
    await readRest(reader, tail);
    return conclude(output, tail, undefined);
  } finally {
    if (!draining) guard?.release();
  }
}

interface Step {
  done: boolean;
  value?: PrefillOutput | undefined;
}

function firstOutput(reader: PrefillReader, step: Step): PrefillOutput {
  if (step.done) throw noOutput();
  const first = step.value ?? {};
  if (isError(first)) {
    const error = errorOutput(first.error);
    giveUp(reader, error);
    throw error;
  }
  return first;
}

async function readRest(reader: PrefillReader, tail: PrefillTail): Promise<void> {
  for (;;) {
    let step: Step;
    try {
      step = await reader.read();
    } catch (error) {
      throw errorInStream(error);
    }
    if (step.done) return;
    const failure = judgeLater(step.value, tail);
    if (failure !== undefined) {
      giveUp(reader, failure);
      throw failure;
    }
  }
}

/**
 * Does decode meet this prefill while it runs? SGLang's three members say so by being there; their values are the engines' business.
 * `early` is how a dialect says it of hand-offs that look otherwise (Mooncake, NIXL push).
 */
function isBootstrap(output: EngineOutput): boolean {
  if (output.early === true) return true;
  const params = output.disaggregatedParams?.value;
  return (
    isObject(params) &&
    Object.hasOwn(params, "bootstrap_host") &&
    Object.hasOwn(params, "bootstrap_port") &&
    Object.hasOwn(params, "bootstrap_room")
  );
}

/** Terminal, hand-off, or not usable. */
function conclude(
  output: EngineOutput | undefined,
  tail: PrefillTail,
  completion: PrefillTask | undefined,
): PrefillCompletion {
  if (output === undefined) throw new NoDisaggregatedParams("Prefill router output has no data field");
  // `length` is what prefill's own limit of one token gives; no finish reason is an engine that goes on.
  const reason = output.finishReason;
  if (output.final === true || (reason !== undefined && reason.kind !== "length")) {
    return { kind: "terminal", output, completion };
  }
  const params = output.disaggregatedParams;
  if (params === undefined || params.value === null || params.value === undefined) {
    throw new NoDisaggregatedParams("Prefill router output missing disaggregated_params");
  }
  if (!hasUsableContext(params.value)) {
    throw new NoDisaggregatedParams("Prefill router output has no usable ctx_request_id for a non-terminal handoff");
  }
  return {
    kind: "handoff",
    result: {
      disaggregatedParams: params,
      promptTokensDetails: tail.promptTokensDetails,
      inputLogprobs: tail.inputLogprobs,
    },
    workerLink: output.workerTraceLink,
    completion,
  };
}

/**
 * TensorRT-LLM alone has `ctx_request_id`, and writes null when context finished the request: generation would then fail inside the
 * engine, after its status was sent. Hand-offs of other engines know neither member.
 */
function hasUsableContext(params: unknown): boolean {
  if (!isObject(params)) return true;
  if (Object.hasOwn(params, "ctx_request_id")) return params.ctx_request_id !== null;
  return params.request_type !== "context_only";
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Nobody reads this stream any more; its source is told, and whatever it answers is of no interest. */
async function giveUp(reader: PrefillReader, reason: unknown): Promise<void> {
  try {
    await reader.cancel(reason);
  } catch {
    // The failure that led here is the one that is reported.
  }
}
