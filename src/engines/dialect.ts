import type { Failure } from "../errors/failure.ts";
import type { Pieces } from "../json/pieces.ts";
import type { JsonObject } from "../json/scan.ts";
import type { AnswerHeaders } from "../legs/exchange.ts";
import type { EngineOutput, PrefillOutput, RawJson } from "../prefill/output.ts";
import type { Api } from "../sse/api.ts";

export type EngineName = "sglang" | "vllm" | "trtllm" | "openai";
export type Connector = "nixl" | "nixl-push" | "mooncake";

/** A client's generation request after it was read and checked, once, by `routes/`. Nothing in it is ever printed again from values. */
export interface GenerationRequest {
  api: Api;
  /** Path as the engines know it, e.g. `/v1/chat/completions`. */
  path: string;
  /** The body as the client sent it, with the spans of its top-level members. Router-owned members are still in it. */
  doc: JsonObject;
  stream: boolean;
  /** `stream_options.include_usage` as asked. */
  includeUsage: boolean;
  /** The name the client used. */
  model: string;
  /** The name the engines know, as JSON text to put in place of the client's, when it is another (alias); else undefined. */
  engineModel: string | undefined;
  /** One limit of one token, asked for by the client itself (trtllm: context alone is the answer). */
  singleToken: boolean;
  /** Input logprobs, `prompt_logprobs` or `echo` with logprobs were asked for: prefill has them, decode has not. */
  wantsInputLogprobs: boolean;
}

/** What a dialect may know of the worker a leg goes to. */
export interface LegTarget {
  /** Host and port decode can reach prefill's bootstrap server at (sglang; mooncake for the query). IPv6 in brackets. */
  bootstrapHost: string;
  bootstrapPort: number;
  dpSize: number;
  /** The bootstrap port is a guess that the engine may still put right: nobody has said one, and it has not been asked yet. */
  guessed?: boolean | undefined;
  /** nixl-push */
  engineId?: string | undefined;
  kvHost?: string | undefined;
  kvPort?: number | undefined;
  tpSize?: number | undefined;
  ppSize?: number | undefined;
  /** mooncake: what the bootstrap query told, `engine_id` by data-parallel rank */
  mooncake?: { rank: number; engineId: string } | undefined;
}

/** One HTTP request to one engine. Path is appended to the worker's base URL. */
export interface LegRequest {
  path: string;
  body: Pieces;
  /** Headers of this leg alone (e.g. `x-data-parallel-rank`). */
  headers?: Record<string, string>;
}

/** An engine's complete answer to a prefill leg (`text` bounded by `tailBytes`; `truncated` when more came and was dropped). */
export interface EngineAnswer {
  status: number;
  headers: AnswerHeaders;
  text: string;
  truncated: boolean;
}

/** How one attempt of a request becomes two legs. */
export interface SplitPlan {
  prefill: LegRequest;
  /** Present when the hand-off is known ahead: decode is sent in the same tick. Absent: prefill's answer is awaited first. */
  early?: EngineOutput;
  /** Prefill's complete answer → outputs: first an error, or data. Judged by status, content and finish reason (contract section 5). */
  judge(answer: EngineAnswer): PrefillOutput;
  /** The decode leg, once the hand-off is known. Throws a Failure `invalid_handoff` when it must not reach decode. */
  decode(handoff: RawJson): LegRequest;
  /** Sequential modes: the release request for a hand-off that nobody will use (contract section 6). */
  release?(handoff: RawJson): LegRequest;
}

export interface Dialect {
  engine: EngineName;
  /** Both legs at once, or prefill first. */
  concurrent: boolean;
  /** APIs this engine can split. */
  splits: ReadonlySet<Api>;
  /** Whether a leg should not be planned before the worker's engine has been asked something of itself. Absent: never. */
  needsIntroduction?(prefill: LegTarget): boolean;
  /** A Failure (400) when the request asks for what a split cannot give; else undefined. */
  refuse(request: GenerationRequest): Failure | undefined;
  /** `id` is the router's own id of this attempt, equal on both legs and in `x-request-id`. */
  plan(request: GenerationRequest, prefill: LegTarget, id: string): SplitPlan;
  /** Terminal prefill answers (contract section 5): what the client gets, buffered or as whole SSE events. */
  terminalAnswer(request: GenerationRequest, output: EngineOutput): string;
  terminalStream(request: GenerationRequest, output: EngineOutput): string;
}
