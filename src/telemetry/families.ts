import type { ErrorCode, FaultKind, Stage } from "../errors/failure.ts";
import { BOUNDS, Histogram } from "./histogram.ts";
import { METRIC } from "./names.ts";
import type { Outcome } from "./record.ts";
import { Axis, Counter, type Registry, WorkerCounter } from "./registry.ts";

/** The routes of the contract (section 3); any other path is "other". */
export const ROUTES = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/messages",
  "/generate",
  "/v1/embeddings",
  "/v1/rerank",
  "/v1/score",
  "/v1/classify",
  "/tokenize",
  "/detokenize",
  "/v1/models",
  "/v1/models/{id}",
] as const;

const OUTCOMES = namesOf<Outcome>({
  success: true,
  client_cancel: true,
  prefill_failed: true,
  decode_failed: true,
  handoff_failed: true,
  timeout: true,
  rejected: true,
  shutdown: true,
  internal: true,
});

const CODES = namesOf<ErrorCode>({
  invalid_request: true,
  unauthorized: true,
  forbidden: true,
  model_not_found: true,
  not_found: true,
  method_not_allowed: true,
  conflict: true,
  body_too_large: true,
  unsupported_media_type: true,
  rate_limited: true,
  router_overloaded: true,
  queue_timeout: true,
  shutting_down: true,
  no_prefill_workers: true,
  no_decode_workers: true,
  prefill_unreachable: true,
  decode_unreachable: true,
  prefill_timeout: true,
  decode_timeout: true,
  prefill_failed: true,
  decode_failed: true,
  event_too_large: true,
  invalid_handoff: true,
  internal: true,
});

const STAGES = namesOf<Stage>({
  router: true,
  prefill: true,
  handoff: true,
  decode: true,
});
const KINDS = namesOf<FaultKind>({
  refused: true,
  reset: true,
  cut: true,
  connect: true,
  timeout: true,
  status: true,
  content: true,
});
const POLICIES = ["round-robin", "random", "power-of-two", "least-load", "prefix-aware", "consistent-hash"] as const;

/** The names of a union; the compiler refuses a list that misses one. */
function namesOf<Name extends string>(names: Record<Name, true>): string[] {
  return Object.keys(names);
}

/** Reasons of policies are literals of `src/workers/`; this many different ones are told apart. */
const REASON_ROOM = 24;

/** So many models a reload may add; those beyond them count as "other" until a restart. */
const MODEL_ROOM = 16;

/** All label axes. Only configured model ids and fixed sets: no client can make a new child. */
export function createAxes(models: readonly string[]) {
  return {
    model: new Axis("model", models, "other", MODEL_ROOM, true),
    route: new Axis("route", ROUTES),
    streaming: new Axis("streaming", ["true"], "false"),
    outcome: new Axis("outcome", OUTCOMES, "unknown"),
    status: new Axis("status", ["2xx", "3xx", "4xx", "499", "5xx"], "none"),
    path: new Axis("path", ["disaggregated", "aggregated", "decode-only", "prefill-only"], "none"),
    code: new Axis("code", CODES),
    stage: new Axis("stage", STAGES),
    kind: new Axis("kind", KINDS),
    reason: new Axis("reason", KINDS, "other", REASON_ROOM),
    when: new Axis("when", ["streaming", "after_end"]),
    completion: new Axis("reason", ["cut", "silence", "no_end_mark"]),
    policy: new Axis("policy", POLICIES),
    role: new Axis("role", ["prefill", "decode", "aggregated"]),
    choice: new Axis("reason", [], "other", REASON_ROOM),
    breaker: new Axis("state", ["closed", "half-open", "open"]),
    probe: new Axis("result", ["ok", "failed", "timeout", "unreachable"]),
    exchange: new Axis("result", ["ok"], "failed"),
  };
}

export type Axes = ReturnType<typeof createAxes>;

export function createCounters(registry: Registry, axes: Axes) {
  const counter = (name: string, help: string, ...labels: Axis[]): Counter =>
    registry.add(new Counter(name, help, labels));
  const { model, route, streaming, outcome, status, path, code, stage, kind, when } = axes;
  return {
    requests: counter(METRIC.requests, "Requests that have ended.", model, route, streaming, outcome),
    responses: counter(METRIC.responses, "Responses by status class; 499 = the client left first.", model, status),
    routed: counter(METRIC.routed, "Requests by the path they took through the fleet.", model, path),
    errors: counter(
      METRIC.errors,
      "Requests that ended with an error of the contract, before or after the commit.",
      code,
      stage,
    ),
    rejected: counter(METRIC.rejected, "Requests refused by the router itself.", code),
    retries: counter(METRIC.retries, "Further attempts of a leg before the status was committed.", axes.reason, stage),
    errorFrames: counter(
      METRIC.errorFrames,
      "Streams that were ended by an error frame after their status was committed.",
    ),
    lateFailures: counter(
      METRIC.lateFailures,
      "Prefill tails that failed after decode had been committed.",
      kind,
      when,
    ),
    completedByRouter: counter(
      METRIC.completedByRouter,
      "Streams whose end mark was missing after the finish event and was written by the router.",
      axes.completion,
    ),
    droppedAfterFinish: counter(
      METRIC.droppedAfterFinish,
      "Error events of decode dropped because the answer had finished.",
    ),
    handoffsReleased: counter(METRIC.handoffsReleased, "Release requests for hand-offs that nobody would use."),
    drainsOpened: counter(METRIC.drainsOpened, "Prefill tails that went to the background."),
    drainsCut: counter(METRIC.drainsCut, "Prefill tails cut by the router before their end."),
    breakerChanges: registry.add(
      new WorkerCounter(
        METRIC.breakerChanges,
        "Changes of a worker's circuit breaker, by its new state.",
        axes.breaker,
      ),
    ),
    probes: registry.add(new WorkerCounter(METRIC.probes, "Health probes.", axes.probe)),
    storeExchanges: counter(METRIC.storeExchanges, "Exchanges with the store that routers share.", axes.exchange),
    policyChoices: counter(
      METRIC.policyChoices,
      "Workers chosen, by policy and its reason.",
      axes.policy,
      axes.role,
      axes.choice,
    ),
    prefixHits: counter(METRIC.prefixHits, "Choices that found a worker which had seen a prefix of the prompt."),
    prefixHitTokens: counter(METRIC.prefixHitTokens, "Estimated prompt tokens in those prefixes."),
    promptTokens: counter(METRIC.promptTokens, "Prompt tokens as the engines told them.", model),
    cachedTokens: counter(METRIC.cachedTokens, "Prompt tokens the engines had in their caches, as they told.", model),
    completionTokens: counter(METRIC.completionTokens, "Completion tokens as the engines told them.", model),
    requestBytes: counter(METRIC.requestBytes, "Bytes of request bodies."),
    responseBytes: counter(METRIC.responseBytes, "Bytes of response bodies."),
  };
}

export function createHistograms(registry: Registry, { model, path }: Axes) {
  const histogram = (name: string, help: string, bounds: readonly number[], ...labels: Axis[]): Histogram =>
    registry.add(new Histogram(name, help, bounds, labels));
  return {
    firstToken: histogram(
      METRIC.timeToFirstToken,
      "Streams: from the request's arrival to the first event that carries an answer.",
      BOUNDS.firstToken,
      model,
      path,
    ),
    interToken: histogram(
      METRIC.interTokenLatency,
      "Streams: mean gap between the blocks of one answer (one observation a request).",
      BOUNDS.betweenTokens,
      model,
      path,
    ),
    perOutputToken: histogram(
      METRIC.timePerOutputToken,
      "Streams whose engine told its tokens: mean time per token after the first (one observation a request).",
      BOUNDS.betweenTokens,
      model,
      path,
    ),
    duration: histogram(METRIC.duration, "From arrival to the end of the response.", BOUNDS.request, model, path),
    queue: histogram(METRIC.queueTime, "Waiting for a place before admission.", BOUNDS.wait),
    prefill: histogram(
      METRIC.prefillTime,
      "Prefill leg, from dispatch to its complete answer.",
      BOUNDS.firstToken,
      model,
    ),
    handoff: histogram(
      METRIC.handoffGap,
      "Sequential modes: from prefill's answer to decode's dispatch.",
      BOUNDS.handoff,
      model,
    ),
    decodeFirstToken: histogram(
      METRIC.decodeFirstToken,
      "From decode's dispatch to its first event that carries an answer.",
      BOUNDS.firstToken,
      model,
    ),
    tailOutlived: histogram(
      METRIC.tailOutlived,
      "How long prefill tails went on after the response had ended.",
      BOUNDS.wait,
    ),
    settleWait: histogram(
      METRIC.settleWait,
      "How long finished answers waited for an unsettled prefill tail.",
      BOUNDS.wait,
    ),
  };
}
