/** Where in the walk of a request something failed (contract: errors, `stage`). */
export type Stage = "router" | "prefill" | "handoff" | "decode";

/** The router's own stable error codes. They stand in `x-router-error-code` whatever an engine said. */
export type ErrorCode =
  | "invalid_request"
  | "unauthorized"
  | "forbidden"
  | "model_not_found"
  | "not_found"
  | "method_not_allowed"
  | "conflict"
  | "body_too_large"
  | "unsupported_media_type"
  | "rate_limited"
  | "router_overloaded"
  | "queue_timeout"
  | "shutting_down"
  | "no_prefill_workers"
  | "no_decode_workers"
  | "prefill_unreachable"
  | "decode_unreachable"
  | "prefill_timeout"
  | "decode_timeout"
  | "prefill_failed"
  | "decode_failed"
  | "event_too_large"
  | "invalid_handoff"
  | "internal";

/**
 * How a leg went wrong, as far as retries, breakers and `lateFailure` care:
 * - `refused`: nothing was sent (connection refused, name not resolved)
 * - `reset`: closed before any byte of an answer came; the request counts as sent
 * - `cut`: the answer began and its transport ended early
 * - `connect`: not reachable within `connectMs`; counts as sent
 * - `timeout`: one of our own limits ran out
 * - `status`: an answered 4xx/5xx
 * - `content`: a 200 whose content is an error, an abort, or useless
 */
export type FaultKind = "refused" | "reset" | "cut" | "connect" | "timeout" | "status" | "content";

/** The worker has not said that it failed; only its answer is lost (contract section 5, `lateFailure: definitive`). */
export function isMerelyLost(kind: FaultKind | undefined): kind is "refused" | "reset" | "cut" | "connect" {
  return kind === "reset" || kind === "cut" || kind === "refused" || kind === "connect";
}

/** What an engine said about its own error; kept for the client (contract: an engine's own 4xx/5xx keeps its type and code). */
export interface EngineFault {
  message: string;
  type?: string;
  code?: string | number | null | undefined;
  param?: string | null;
  /** HTTP status that the fault itself carries: integer `code` or `status_code` within 400–599. */
  status?: number;
}

export interface FailureOptions {
  status: number;
  stage: Stage;
  message: string;
  kind?: FaultKind;
  param?: string | null;
  engine?: EngineFault;
  /** `retry-after` and `x-ratelimit-*` of the answer that failed. */
  headers?: readonly (readonly [string, string])[];
  /** An engine's own nested error event, to be passed on unchanged and once (bytes of one whole SSE event). */
  frame?: Uint8Array;
  retryAfterSeconds?: number;
  cause?: unknown;
}

/** A failure a client may see. Everything that goes wrong on the main path is one of these by the time it leaves. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly code: ErrorCode;
  readonly status: number;
  readonly stage: Stage;
  readonly kind: FaultKind | undefined;
  readonly param: string | null;
  readonly engine: EngineFault | undefined;
  readonly headers: readonly (readonly [string, string])[];
  readonly frame: Uint8Array | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, options: FailureOptions) {
    super(options.message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status;
    this.stage = options.stage;
    this.kind = options.kind;
    this.param = options.param ?? null;
    this.engine = options.engine;
    this.headers = options.headers ?? [];
    this.frame = options.frame;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Whatever was thrown, as a Failure: what is none yet is the router's own. No stack trace leaves the process. */
export function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  return new Failure("internal", {
    status: 500,
    stage: "router",
    message: "The router failed to handle this request",
    cause: error,
  });
}

/** Decode's Failure for what an engine says of itself within a 200: its own status counts, else 502. */
export function faultWithinAnswer(fault: EngineFault, more: Pick<FailureOptions, "headers" | "frame"> = {}): Failure {
  return new Failure("decode_failed", {
    status: fault.status ?? 502,
    stage: "decode",
    kind: "content",
    message: fault.message,
    engine: fault,
    ...more,
  });
}

/** The client itself has left. Never shown to anyone; neutral for every worker (499 in metrics and log). */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
  constructor() {
    super("The client closed its connection");
  }
}
