import type { ErrorCode, FaultKind, Stage } from "../errors/failure.ts";
import { type Axes, createAxes, createCounters, createHistograms } from "./families.ts";
import type { BreakerState, FleetSnapshot, WorkerRole } from "./fleet.ts";
import { registerGauges } from "./gauges.ts";
import type { RequestRecord } from "./record.ts";
import { Registry } from "./registry.ts";

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

export interface MetricsOptions {
  /** Configured model ids; every other name counts as "other". */
  models: readonly string[];
  version: string;
  /** Time of day at start, milliseconds since 1970. */
  startedAt: number;
  /** Requests that have begun and not ended. */
  inProgress: () => number;
  /** Spans handed over and lost so far. */
  spans: () => { exported: number; dropped: number };
}

/**
 * Every number the router shows. One request costs one `requestDone`, which reads the finished record; what happens outside a record,
 * or after its end, has a method of its own and is counted there alone (so `lateFailure`, `settleWaitMs` and `handoffReleased` of a
 * record are for log and spans only, and never counted twice). Text is rendered only when somebody asks.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #axes: Axes;
  readonly #counters: ReturnType<typeof createCounters>;
  readonly #histograms: ReturnType<typeof createHistograms>;
  #drainsOpen = 0;
  #storeReached: boolean | undefined;
  #fleet: () => FleetSnapshot = emptyFleet;
  #snapshot: FleetSnapshot = emptyFleet();

  constructor(options: MetricsOptions) {
    this.#axes = createAxes(options.models);
    this.#counters = createCounters(this.#registry, this.#axes);
    this.#histograms = createHistograms(this.#registry, this.#axes);
    registerGauges(this.#registry, {
      ...options,
      drainsOpen: () => this.#drainsOpen,
      storeReached: () => this.#storeReached,
      fleet: () => this.#snapshot,
    });
  }

  /** Models that a reload has added. */
  learnModels(models: readonly string[]): void {
    this.#axes.model.learn(models);
  }

  /** Where the gauges of workers and queue come from; asked once per scrape. */
  observeFleet(fleet: () => FleetSnapshot): void {
    this.#fleet = fleet;
  }

  /** Once per request, when its response has ended. Measured: see bench/telemetry.ts. */
  requestDone(record: RequestRecord): void {
    const { model, route, outcome, path } = this.#axes;
    const counters = this.#counters;
    const modelIndex = model.index(record.model);
    const streaming = record.streaming ? 1 : 0;
    const labels = ((modelIndex * route.size + route.index(record.route)) * 2 + streaming) * outcome.size;
    counters.requests.add(labels + outcome.index(record.outcome), 1);
    counters.responses.add(modelIndex * this.#axes.status.size + statusClass(record), 1);
    counters.requestBytes.add(0, record.bytesIn);
    counters.responseBytes.add(0, record.bytesOut);
    if (record.code !== "") this.#errorDone(record.code, record.stage || "router");
    if (record.errorFrame) counters.errorFrames.add(0, 1);
    if (record.outcome === "rejected") this.rejected(record.code || "internal");
    if (record.admittedAt > 0) this.#histograms.queue.observe(0, (record.admittedAt - record.t0) / 1000);
    if (record.path === "") return;

    const pathIndex = modelIndex * path.size + path.index(record.path);
    counters.routed.add(pathIndex, 1);
    counters.promptTokens.add(modelIndex, record.promptTokens);
    counters.cachedTokens.add(modelIndex, record.cachedTokens);
    counters.completionTokens.add(modelIndex, record.completionTokens);
    this.#histograms.duration.observe(pathIndex, (record.finishedAt - record.t0) / 1000);
    if (record.streaming && record.committedAt > 0) this.#streamDone(record, pathIndex);
    this.#legsDone(record, modelIndex);
  }

  #errorDone(code: ErrorCode, stage: Stage): void {
    this.#counters.errors.add(this.#axes.code.index(code) * this.#axes.stage.size + this.#axes.stage.index(stage), 1);
  }

  #streamDone(record: RequestRecord, child: number): void {
    this.#histograms.firstToken.observe(child, (record.committedAt - record.t0) / 1000);
    // The tail of a stream that failed or was left says nothing about decode's pace.
    if (record.outcome !== "success") return;
    const streamed = (record.finishedAt - record.committedAt - record.settleWaitMs) / 1000;
    if (record.chunks > 1) this.#histograms.interToken.observe(child, streamed / (record.chunks - 1));
    if (record.completionTokens > 1)
      this.#histograms.perOutputToken.observe(child, streamed / (record.completionTokens - 1));
  }

  #legsDone(record: RequestRecord, modelIndex: number): void {
    this.#prefillDone(record, modelIndex);
    if (record.decodeSentAt === 0) return;
    // Where both legs are sent in one tick prefill ends after decode's dispatch: no gap to speak of.
    if (record.prefillDoneAt > 0 && record.decodeSentAt >= record.prefillDoneAt) {
      this.#histograms.handoff.observe(modelIndex, (record.decodeSentAt - record.prefillDoneAt) / 1000);
    }
    if (record.streaming && record.committedAt > 0) {
      this.#histograms.decodeFirstToken.observe(modelIndex, (record.committedAt - record.decodeSentAt) / 1000);
    }
  }

  #prefillDone(record: RequestRecord, modelIndex: number): void {
    if (record.prefillDoneAt === 0 || record.prefillSentAt === 0 || record.prefillObserved) return;
    record.prefillObserved = true;
    this.#histograms.prefill.observe(modelIndex, (record.prefillDoneAt - record.prefillSentAt) / 1000);
  }

  /** A prefill tail goes to the background. */
  drainOpened(): void {
    this.#drainsOpen += 1;
    this.#counters.drainsOpened.add(0, 1);
  }

  /** Once for every `drainOpened`, cut or not. `tailEndedAt` is set, and `prefillDoneAt` if the tail ended well. */
  drainClosed(record: RequestRecord): void {
    this.#drainsOpen -= 1;
    if (record.finishedAt === 0) return;
    this.#prefillDone(record, this.#axes.model.index(record.model));
    if (record.tailEndedAt > record.finishedAt) {
      this.#histograms.tailOutlived.observe(0, (record.tailEndedAt - record.finishedAt) / 1000);
    }
  }

  /** The router cut a tail (`tailMs`, `shutdownMs`); besides its `drainClosed`. */
  drainCut(): void {
    this.#counters.drainsCut.add(0, 1);
  }

  /** Reasons besides the kinds of faults must be literals of the code, not an engine's words. */
  retry(reason: FaultKind | (string & {}), stage: Stage): void {
    const { reason: reasons, stage: stages } = this.#axes;
    this.#counters.retries.add(reasons.index(reason) * stages.size + stages.index(stage), 1);
  }

  breakerChange(worker: string, state: BreakerState): void {
    this.#counters.breakerChanges.add(worker, state);
  }

  probe(worker: string, result: "ok" | "failed" | "timeout" | "unreachable"): void {
    this.#counters.probes.add(worker, result);
  }

  /** One exchange of one pool with the store that routers share has ended. */
  storeExchange(well: boolean): void {
    this.#storeReached = well;
    this.#counters.storeExchanges.add(this.#axes.exchange.index(well ? "ok" : "failed"), 1);
  }

  /** A release request went out for a hand-off that nobody would use (contract section 6). */
  handoffReleased(): void {
    this.#counters.handoffsReleased.add(0, 1);
  }

  lateFailure(kind: FaultKind, when: "streaming" | "after_end"): void {
    this.#counters.lateFailures.add(
      this.#axes.kind.index(kind) * this.#axes.when.size + this.#axes.when.index(when),
      1,
    );
  }

  /** A finished answer waited this long, in milliseconds, for its prefill tail. */
  settleWait(ms: number): void {
    this.#histograms.settleWait.observe(0, ms / 1000);
  }

  /** A missing end mark was written by the router, because the finish event was out already. */
  completedByRouter(reason: "cut" | "silence" | "no_end_mark"): void {
    this.#counters.completedByRouter.add(this.#axes.completion.index(reason), 1);
  }

  droppedAfterFinish(): void {
    this.#counters.droppedAfterFinish.add(0, 1);
  }

  /** `policy` in our spelling; `reason` a literal of the policy's code. */
  policyChoice(policy: string, role: WorkerRole, reason: string): void {
    const { policy: policies, role: roles, choice } = this.#axes;
    const labels = policies.index(policy) * roles.size + roles.index(role);
    this.#counters.policyChoices.add(labels * choice.size + choice.index(reason), 1);
  }

  prefixHit(tokens: number): void {
    this.#counters.prefixHits.add(0, 1);
    this.#counters.prefixHitTokens.add(0, tokens);
  }

  /** A refusal without a record. `requestDone` calls this itself for records whose outcome is `rejected`. */
  rejected(code: ErrorCode): void {
    this.#counters.rejected.add(this.#axes.code.index(code), 1);
  }

  /** The whole page of `/metrics`, to be sent as `METRICS_CONTENT_TYPE`. */
  render(): string {
    this.#snapshot = this.#fleet();
    if (this.#fleet !== emptyFleet) {
      const names = new Set(this.#snapshot.workers.map((worker) => worker.name));
      this.#counters.breakerChanges.keep(names);
      this.#counters.probes.keep(names);
    }
    return this.#registry.render();
  }
}

function emptyFleet(): FleetSnapshot {
  return { workers: [], queueLength: 0 };
}

/** Index into the `status` axis: none, 2xx, 3xx, 4xx, 499, 5xx. A client that left counts as 499 whatever had been sent. */
function statusClass(record: RequestRecord): number {
  if (record.outcome === "client_cancel" || record.status === 499) return 4;
  if (record.status >= 500) return 5;
  if (record.status >= 400) return 3;
  if (record.status >= 300) return 2;
  return record.status >= 200 ? 1 : 0;
}
