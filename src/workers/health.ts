import type { HealthConfig } from "../config/schema.ts";
import type { EngineName } from "../engines/dialect.ts";

/** How one probe ended: an HTTP status, nothing in time, or no connection. */
export type ProbeResult = { kind: "answer"; status: number } | { kind: "timeout" } | { kind: "error" };

export interface ProbePlan {
  path: string;
  timeoutMs: number;
}

/**
 * SGLang's `/health` runs a one-token request: a second at best, and behind the queue when the engine is busy. So it is not what a
 * worker that serves is asked every few seconds (`/ready`), but what one that was down has to pass before requests come back.
 */
const PATIENT_TIMEOUT_MS = 20_000;

/** What probes said is trusted for three intervals, at least this long: where probes ride on requests, a quiet hour makes them stale. */
const LEAST_TRUST_MS = 30_000;

/**
 * Health of one worker: thresholds over probes, with live traffic as a second source. It starts no timer and no request; somebody
 * asks `due`, sends what `begin` says and reports back. Workers are healthy until probes have shown otherwise.
 */
export class WorkerHealth {
  readonly #engine: EngineName;
  #config: HealthConfig;
  readonly #onChange: (healthy: boolean) => void;
  #up = true;
  #failures = 0;
  #successes = 0;
  #nextAt = -Infinity;
  #startedAt = 0;
  #probing = false;
  /** A probe that has not reported by then never will: on Workers one is killed with the request it rode on. */
  #lostAt = Infinity;
  #reportedAt = -Infinity;
  #answeredAt = -Infinity;
  /** The engine has no `/ready` (404): its older `/health` is asked instead. */
  #noReady = false;

  constructor(engine: EngineName, config: HealthConfig, onChange: (healthy: boolean) => void = ignore) {
    this.#engine = engine;
    this.#config = config;
    this.#onChange = onChange;
  }

  /** Whether requests may be sent. A bad verdict that nobody has renewed for long is no verdict any more. */
  healthy(now: number): boolean {
    return this.#up || now >= this.changesAt;
  }

  /** When a bad verdict goes stale; Infinity while healthy. */
  get changesAt(): number {
    if (this.#up) return Infinity;
    const { intervalMs } = this.#config;
    // A probe that is under way may take as long as it is given: without its word nothing has changed.
    return this.#reportedAt + Math.max(3 * intervalMs, LEAST_TRUST_MS, this.plan().timeoutMs + 2 * intervalMs);
  }

  /** When the worker last answered live traffic. */
  get lastAnswerAt(): number {
    return this.#answeredAt;
  }

  get lastReportAt(): number {
    return this.#reportedAt;
  }

  /** Whether a probe should be sent now. Each worker has its own time, so one that hangs holds up nobody but itself. */
  due(now: number): boolean {
    return this.#config.intervalMs > 0 && now >= this.#nextAt && (!this.#probing || now >= this.#lostAt);
  }

  /** Marks a probe as sent and says what to send. `report` is to follow; until then the worker is not due, unless the probe got lost. */
  begin(now: number): ProbePlan {
    const plan = this.plan();
    this.#probing = true;
    this.#startedAt = now;
    this.#nextAt = now + this.#config.intervalMs;
    this.#lostAt = now + plan.timeoutMs + this.#config.intervalMs;
    return plan;
  }

  /** Path and patience of the next probe. */
  plan(): ProbePlan {
    const { path, timeoutMs } = this.#config;
    // A scheduler that hangs still answers `/ready`; only a token proves that a worker may be let in again.
    const cheap = this.#engine === "sglang" && this.#up && !this.#noReady;
    const chosen = path ?? (cheap ? "/ready" : "/health");
    const patient = this.#engine === "sglang" && chosen === "/health";
    return { path: chosen, timeoutMs: patient ? Math.max(timeoutMs, PATIENT_TIMEOUT_MS) : timeoutMs };
  }

  report(result: ProbeResult, now: number): void {
    this.#probing = false;
    if (result.kind === "answer" && result.status === 404 && this.plan().path === "/ready") {
      if (this.#config.path === undefined) {
        this.#noReady = true;
        this.#nextAt = now;
        return;
      }
    }
    // A busy engine answers its requests and lets the probe wait: that is no failure (contract section 2).
    if (result.kind === "timeout" && this.#answeredAt >= this.#startedAt - this.#config.intervalMs) {
      this.#failures = 0;
      return;
    }
    this.#reportedAt = now;
    if (alive(result, this.#engine)) this.#good();
    else this.#bad();
  }

  /** The worker answered live traffic: anything with an HTTP status. */
  answered(now: number): void {
    this.#answeredAt = now;
    if (this.#up) this.#failures = 0;
  }

  /** Live traffic could not get an answer: the next probe need not wait for its turn. */
  suspect(now: number): void {
    // Not sooner than a quarter of the interval after the last one: a burst of failures is no reason for a burst of probes.
    this.#nextAt = Math.min(this.#nextAt, Math.max(now, this.#startedAt + this.#config.intervalMs / 4));
  }

  /** New settings at run time; without probes nothing keeps a worker down. A shorter interval counts from the last probe on. */
  configure(config: HealthConfig): void {
    // The probe under way keeps the patience it was sent with.
    this.#lostAt += config.intervalMs - this.#config.intervalMs;
    this.#nextAt = Math.min(this.#nextAt, this.#startedAt + config.intervalMs);
    this.#config = config;
    if (config.intervalMs === 0) this.#become(true);
    // When a bad verdict goes stale hangs on the interval too.
    else this.#onChange(this.#up);
  }

  #good(): void {
    this.#failures = 0;
    if (this.#up) return;
    this.#successes += 1;
    if (this.#successes >= this.#config.successes) this.#become(true);
    else this.#onChange(false);
  }

  #bad(): void {
    this.#successes = 0;
    this.#failures += 1;
    if (!this.#up) this.#onChange(false);
    else if (this.#failures >= this.#config.failures) this.#become(false);
  }

  #become(up: boolean): void {
    if (this.#up === up) return;
    this.#up = up;
    // It may come back as another one.
    this.#noReady = false;
    this.#failures = 0;
    this.#successes = 0;
    this.#onChange(up);
  }
}

/**
 * 401 and 403 are a matter of keys, 429 of load: the engine is there. Other OpenAI-compatible servers often have no health route,
 * so there 404 and 405 are signs of life too.
 */
function alive(result: ProbeResult, engine: EngineName): boolean {
  if (result.kind !== "answer") return false;
  const { status } = result;
  if (status >= 200 && status < 300) return true;
  if (status === 401 || status === 403 || status === 429) return true;
  return engine === "openai" && (status === 404 || status === 405);
}

function ignore(): void {}
