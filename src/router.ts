import type { Answer } from "./attempt/answer.ts";
import type { Call } from "./attempt/call.ts";
import type { Services } from "./attempt/services.ts";
import { SplitAttempt } from "./attempt/split-attempt.ts";
import { type Tried, Tries } from "./attempt/tries.ts";
import { WholeAttempt } from "./attempt/whole-attempt.ts";
import { aggregatedLeg } from "./engines/openai.ts";
import { dialectFor } from "./engines/registry.ts";
import { countPrompts, countSamples } from "./engines/sequences.ts";
import { Failure } from "./errors/failure.ts";
import { fanOut } from "./fanout/fan-out.ts";
import { type Parts, partsOf, refuseParts } from "./fanout/parts.ts";
import { newTraceId } from "./telemetry/ids.ts";
import type { RouterPath } from "./telemetry/record.ts";
import { choose } from "./workers/choose.ts";
import type { Model } from "./workers/fleet.ts";
import { acquire, type Lease } from "./workers/lease.ts";
import type { Pool } from "./workers/pool.ts";
import { RetryBudget } from "./workers/retry-budget.ts";
import { pathIn } from "./workers/split-choice.ts";
import type { Worker, WorkerRole } from "./workers/worker.ts";

interface Attempt {
  tried: Tried;
  run(): Promise<Answer>;
}

/**
 * The story of one generation request: find a pool and a way through it, reserve the workers, send the legs, and try again elsewhere as
 * long as nothing has been promised to the client. What a split *means* is told in `prefill/`, how engines want it in `engines/`, how an
 * answer reaches the client in `relay/`.
 */
export class Router {
  readonly #services: Services;
  readonly #budget: RetryBudget;

  constructor(services: Services) {
    this.#services = services;
    this.#budget = new RetryBudget(services.config.retries.budget);
  }

  /** The configuration has changed: takes over what is kept beside it. */
  configure(): void {
    this.#budget.configure(this.#services.config.retries.budget);
  }

  /**
   * Resolves when the status may be committed: the answer is good so far. A split request for several sequences goes as one request per
   * sequence, each with a walk of its own. Rejects with a Failure (or ClientGone).
   */
  async generate(call: Call, model: Model): Promise<Answer> {
    const { clock } = this.#services;
    const tries = new Tries(this.#services, call);
    this.#budget.request(clock.now());
    for (;;) {
      // Its client has left while the request waited or was read: engines must not hear of it.
      if (call.stopped !== undefined) throw call.stopped;
      const attempt = this.#nextAttempt(call, model, tries);
      if ("parts" in attempt) return fanOut(call, attempt, clock, (part) => this.generate(part, model));
      call.record.attempts++;
      let answer: Answer;
      try {
        answer = await attempt.run();
      } catch (error) {
        await tries.again(error, attempt.tried, (now) => this.#budget.take(now));
        continue;
      }
      tries.succeeded();
      return answer;
    }
  }

  /** The next way through the pools, best first. Throws the Failure that stands when there is none. */
  #nextAttempt(call: Call, model: Model, tries: Tries): Attempt | Parts {
    const { clock, fleet } = this.#services;
    let refusal: Failure | undefined;
    for (const pool of fleet.pools(model, clock.now())) {
      const way = this.#attemptIn(pool, call, tries);
      if (!(way instanceof Failure)) return way;
      // A 503 says more than "this pool cannot do that": another pool of the model can.
      if (refusal === undefined || way.status === 503) refusal = way;
    }
    tries.exhausted();
    throw tries.last ?? refusal ?? noWorkers("decode");
  }

  #attemptIn(pool: Pool, call: Call, tries: Tries): Attempt | Parts | Failure {
    const { clock, config } = this.#services;
    const dialect = dialectFor(pool.engine, pool.connector);
    const refused = dialect.splits.has(call.request.api)
      ? (dialect.refuse(call.request) ?? refuseParts(call.request, config.limits.fanout))
      : undefined;
    const splits = dialect.splits.has(call.request.api) && refused === undefined;
    const choice = pathIn(pool, call.choice, splits, config.disaggregation, clock.now());
    if ("refusal" in choice) {
      if (choice.refusal === "endpoint") return refused ?? notSplittable(call.request.path);
      return noWorkers(choice.refusal === "no_prefill_workers" ? "prefill" : "decode");
    }
    const id = newTraceId();
    if (choice.path === "disaggregated") return partsOf(call.request) ?? this.#splitIn(pool, call, tries, id);
    const role = choice.path === "aggregated" ? "aggregated" : "decode";
    const lease = this.#reserve(pool, role, call, tries.avoidDecode, tries.onlyOthers);
    if (lease === undefined) return noWorkers("decode");
    this.#note(call, pool, choice.path, undefined, lease.worker);
    const choices =
      countPrompts(call.request.api, call.request.doc).count * countSamples(call.request.api, call.request.doc);
    return {
      tried: { prefill: undefined, decode: lease.worker, split: undefined },
      run: () => new WholeAttempt(this.#services, call, lease, aggregatedLeg(call.request), choices, id).run(),
    };
  }

  /** Decode is reserved before prefill is sent, so that a finished hand-off never waits for a place. */
  #splitIn(pool: Pool, call: Call, tries: Tries, id: string): Attempt | Failure {
    const { clock } = this.#services;
    const { keepDecode, given } = tries;
    const decode =
      keepDecode !== undefined && keepDecode.pool === pool.name
        ? acquire(keepDecode, call.choice.tokens, clock.now())
        : this.#reserve(pool, "decode", call, tries.avoidDecode, tries.onlyOthers);
    if (decode === undefined) return noWorkers("decode");
    const reuse = given !== undefined && pool.prefill.includes(given.prefill) ? given : undefined;
    const prefill =
      reuse !== undefined
        ? { worker: reuse.prefill, release: nothing }
        : this.#reserve(pool, "prefill", call, tries.avoidPrefill, tries.onlyOthers);
    if (prefill === undefined) {
      decode.release();
      return noWorkers("prefill");
    }
    this.#note(call, pool, "disaggregated", prefill.worker, decode.worker);
    const attempt = new SplitAttempt(this.#services, call, pool, prefill, decode, id);
    return {
      tried: { prefill: prefill.worker, decode: decode.worker, split: attempt },
      run: () => attempt.run(reuse?.handoff),
    };
  }

  /** A worker that has not failed this request yet; where that is not demanded, one that has is better than none. */
  #reserve(
    pool: Pool,
    role: WorkerRole,
    call: Call,
    avoid: ReadonlySet<Worker>,
    onlyOthers: boolean,
  ): Lease | undefined {
    const { clock, telemetry } = this.#services;
    const now = clock.now();
    const { metrics } = telemetry;
    const reused = this.#reused;
    const lease =
      choose(pool, role, call.choice, { now, exclude: avoid, reused }) ??
      (avoid.size > 0 && !onlyOthers ? choose(pool, role, call.choice, { now, reused }) : undefined);
    if (lease !== undefined) metrics.policyChoice(pool.policy(role).name, role, avoid.size > 0 ? "retry" : "first");
    return lease;
  }

  readonly #reused = (tokens: number): void => this.#services.telemetry.metrics.prefixHit(tokens);

  #note(call: Call, pool: Pool, path: RouterPath, prefill: Worker | undefined, decode: Worker): void {
    const { record } = call;
    record.pool = pool.name;
    record.path = path;
    record.prefill = prefill?.name ?? "";
    record.decode = decode.name;
  }
}

function noWorkers(leg: "prefill" | "decode"): Failure {
  return new Failure(leg === "prefill" ? "no_prefill_workers" : "no_decode_workers", {
    status: 503,
    stage: leg,
    message: `No ${leg} worker can take the request`,
    retryAfterSeconds: 1,
  });
}

function notSplittable(path: string): Failure {
  return new Failure("invalid_request", {
    status: 400,
    stage: "router",
    param: "endpoint",
    message: `${path} cannot be served here: the engine has no split for it, and there is no aggregated worker`,
  });
}

function nothing(): void {}
