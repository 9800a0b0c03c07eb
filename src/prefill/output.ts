/** Why an engine stopped. `error` carries its message. */
export type FinishReason =
  | { kind: "eos" | "length" | "stop" | "cancelled" | "content_filter" }
  | { kind: "error"; message: string };

/** A JSON value together with the text it was read from: a hand-off is passed on as that text, never printed again. */
export interface RawJson {
  value: unknown;
  text: string;
}

/** Usage details about the prompt, in OpenAI's names (`prompt_tokens_details`). */
export interface PromptTokensDetails {
  cached_tokens?: number;
  [detail: string]: unknown;
}

/** What one item of a prefill stream says when it is data. */
export interface EngineOutput {
  tokenIds?: readonly number[];
  text?: string;
  /** Absent while the engine goes on. */
  finishReason?: FinishReason;
  /** How decode can fetch the KV blocks; any JSON value. */
  disaggregatedParams?: RawJson;
  completionUsage?: { promptTokensDetails?: PromptTokensDetails };
  workerTraceLink?: { traceId: string; spanId: string };
  /** In-memory only: the hand-off was known before the engine answered (Mooncake, NIXL push). */
  early?: boolean;
  /** In-memory only: this answer ends the request whatever its finish reason says (TensorRT-LLM, limit of one token). */
  final?: boolean;
  /** In-memory only: input logprobs that the client asked for and only prefill has. */
  inputLogprobs?: unknown;
  /** In-memory only: the engine's answer as it came, when a client may get it (terminal answers). */
  raw?: string;
}

/** One item of a prefill stream. `error` is whatever the dialect has: a Failure, an Error, a string. */
export type PrefillOutput = { error: unknown; data?: undefined } | { data?: EngineOutput; error?: undefined };

/**
 * A stream of prefill outputs. A `ReadableStream<PrefillOutput>` is one; so is any object whose reader has `read` and `cancel`
 * (the dialects' own sources are such objects: a ReadableStream per request costs a microsecond or two).
 */
export interface PrefillStream {
  getReader(): PrefillReader;
}
export interface PrefillReader {
  read(): Promise<{ done: boolean; value?: PrefillOutput | undefined }>;
  cancel(reason?: unknown): Promise<void>;
}
