import type { Answer } from "./attempt/answer.ts";
import type { Call } from "./attempt/call.ts";
import type { Services } from "./attempt/services.ts";
import { SplitAttempt } from "./attempt/split-attempt.ts";
import { releaseUnread } from "./attempt/tear-down.ts";
import { type Tried, Tries } from "./attempt/tries.ts";
import { WholeAttempt } from "./attempt/whole-attempt.ts";
import { aggregatedLeg } from "./engines/openai.ts";
import { dialectFor } from "./engines/registry.ts";
import { countPrompts, countSamples } from "./engines/sequences.ts";
import { Failure } from "./errors/failure.ts";
import { fanOut } from "./fanout/fan-out.ts";
import { type Parts, partsOf, refuseParts } from "./fanout/parts.ts";
import { newTraceId } from "./telemetry/ids.ts";
import { beginLegs, type RouterPath } from "./telemetry/record.ts";
import { choose } from "./workers/choose.ts";
import type { Model } from "./workers/fleet.ts";
import { acquire, type Lease } from "./workers/lease.ts";
import type { Pool } from "./workers/pool.ts";
import { RetryBudget } from "./workers/retry-budget.ts";
import { pathIn } from "./workers/split-choice.ts";
import type { Worker, WorkerRole } from "./workers/worker.ts";

interface Attempt {
  tried: Tried;
  pool: Pool;
  /** Prompt tokens that prefill has to compute; 0 where nothing tells how long that takes. */
  prefillTokens: number;
  /** It takes the hand-off that the attempt before could not deliver. */
  takesHandoff: boolean;
  run(): Promise<Answer>;
}

/**
 * The story of one generation request: find a pool and a way through it, reserve the workers, send the legs, and try again elsewhere as
 * long as nothing has been promised to the client. What a split *means* is told in `prefill/`, how engines want it in `engines/`, how an
 * answer reaches the client in `relay/`.
 */
export class Router {
  readonly #services: Services;
  /** Of all requests together, also of those that are passed on whole (`routes/forward.ts`). */
  readonly budget: RetryBudget;

  constructor(services: Services) {
    this.#services = services;
    this.budget = new RetryBudget(services.config.retries.budget);
  }

  /** The configuration has changed: takes over what is kept beside it. */
  configure(): void {
    this.budget.configure(this.#services.config.retries.budget);
  }

  /**
   * Resolves when the status may be committed: the answer is good so far. A split request for several sequences goes as one request per
   * sequence, each with a walk of its own. Rejects with a Failure (or ClientGone).
   */
  async generate(call: Call, model: Model): Promise<Answer> {
    const { clock } = this.#services;
    const tries = new Tries(this.#services, call);
    const several = model.pools.length > 1;
    let failed: Set<Pool> | undefined;
    let before: Attempt | undefined;
    this.budget.request(clock.now());
    for (;;) {
      // Its client has left while the request waited or was read: engines must not hear of it.
      if (call.stopped !== undefined) throw call.stopped;
      const attempt = this.#nextAttempt(call, model, tries, failed, before);
      if ("parts" in attempt) return fanOut(call, attempt, clock, (part) => this.generate(part, model));
      call.record.attempts++;
      let answer: Answer;
      try {
        answer = await attempt.run();
      } catch (error) {
        const left = several && this.#leaves(error, attempt);
        try {
          await tries.again(error, attempt.tried, (now) => this.budget.take(now));
          // Its client has left while the request waited: engines must not hear of it again.
          if (call.stopped !== undefined) throw call.stopped;
        } catch (end) {
          this.#releaseUnread(call, attempt, tries);
          throw end;
        }
        // A hand-off that nobody has read is for another decode of its own pool.
        if (left && tries.given === undefined) failed = (failed ?? new Set()).add(attempt.pool);
        before = attempt;
        continue;
      }
      tries.succeeded();
      if (several) this.#learn(call, attempt);
      return answer;
    }
  }

  /** No further try takes the hand-off that decode refused: its blocks would stay until their lease ends, so another decode fetches them. */
  #releaseUnread(call: Call, { pool, tried }: Attempt, tries: Tries): void {
    const handoff = tried.split?.takeUnread();
    if (handoff === undefined) return;
    const now = this.#services.clock.now();
    const { handoffMs } = this.#services.config.timeouts;
    if (handoffMs > 0 && now - handoff.at > handoffMs) return;
    const exclude = new Set([...tries.avoidDecode, tried.decode]);
    const decode = choose(pool, "decode", call.choice, { now, exclude });
    if (decode !== undefined) releaseUnread(this.#services, call, handoff, decode);
  }

  /**
   * A worker was not there: may the next try stay in its pool? One that refuses connections may be alone in that, but a request that a dead
   * region costs two of its retries has none left for the next; a reset is often just an idle connection that was closed.
   */
  #leaves(error: unknown, { pool }: Attempt): boolean {
    if (!(error instanceof Failure) || error.kind === undefined) return false;
    const { kind } = error;
    if (kind === "status" || kind === "content") return false;
    const others = this.#services.places.failed(pool, this.#services.clock.now());
    return others || kind === "refused" || kind === "connect";
  }

  /** What an answer tells about its pool, as long as there are others to compare it with. */
  #learn(call: Call, { pool, prefillTokens }: Attempt): void {
    const { clock, places } = this.#services;
    const { record, request } = call;
    // A buffered answer's headers come with its end, and a part's record is not its own.
    const own = request.stream && !call.isPart && record.decodeHeadersAt > record.decodeSentAt;
    const headersMs = own ? record.decodeHeadersAt - record.decodeSentAt : undefined;
    places.answered(pool, call.visit, headersMs, clock.now());
    if (call.isPart || prefillTokens === 0) return;
    const { prefillDoneAt, prefillSentAt } = record;
    if (prefillDoneAt > prefillSentAt)
      places.prefilled(pool, call.visit, prefillTokens, prefillDoneAt - prefillSentAt, prefillDoneAt);
  }

  /** The next way through the pools, best first. Throws the Failure that stands when there is none. */
  #nextAttempt(
    call: Call,
    model: Model,
    tries: Tries,
    failed: ReadonlySet<Pool> | undefined,
    before: Attempt | undefined,
  ): Attempt | Parts {
    const { clock, places } = this.#services;
    const { visit } = call;
    let refusal: Failure | undefined;
    const ordered =
      model.pools.length < 2 && visit === undefined
        ? model.pools
        : places.order(model, visit, call.choice, clock.now(), tries.keepDecode === undefined ? failed : undefined);
    const pools = tries.given === undefined ? ordered : first(ordered, before?.pool);
    for (const leniency of tries.given === undefined ? USUAL : LENIENCIES) {
      tries.onlyUntried = leniency === "untried";
      tries.lastResort = leniency === "last resort";
      for (const pool of pools) {
        const way = this.#attemptIn(pool, call, tries);
        if (!(way instanceof Failure)) {
          if (before !== undefined && !("parts" in way) && !way.takesHandoff) this.#releaseUnread(call, before, tries);
          return way;
        }
        // A 503 says more than "this pool cannot do that": another pool of the model can.
        if (refusal === undefined || way.status === 503) refusal = way;
      }
    }
    tries.exhausted();
    if (before !== undefined) this.#releaseUnread(call, before, tries);
    throw tries.last ?? refusal ?? noWorkers("decode", visit?.allowedRegions);
  }

  #attemptIn(pool: Pool, call: Call, tries: Tries): Attempt | Parts | Failure {
    const { clock, config } = this.#services;
    const dialect = dialectFor(pool.engine, pool.connector);
    const refused = dialect.splits.has(call.request.api)
      ? (dialect.refuse(call.request) ?? refuseParts(call.request, config.limits.fanout))
      : undefined;
    const splits = dialect.splits.has(call.request.api) && refused === undefined;
    const choice = pathIn(pool, call.choice, splits, config.disaggregation, clock.now(), tries.tried, tries.lastResort);
    if ("refusal" in choice) {
      if (choice.refusal === "endpoint") return refused ?? notSplittable(call.request.path);
      return noWorkers(choice.refusal === "no_prefill_workers" ? "prefill" : "decode", call.visit?.allowedRegions);
    }
    const id = newTraceId();
    if (choice.path === "disaggregated") return partsOf(call.request) ?? this.#splitIn(pool, call, tries, id);
    const role = choice.path === "aggregated" ? "aggregated" : "decode";
    const lease = this.#reserve(pool, role, call, tries.avoidDecode, tries);
    if (lease === undefined) return noWorkers("decode", call.visit?.allowedRegions);
    if (!call.isPart) beginLegs(call.record, false);
    this.#note(call, pool, choice.path, undefined, lease.worker);
    const choices =
      countPrompts(call.request.api, call.request.doc).count * countSamples(call.request.api, call.request.doc);
    return {
      tried: { prefill: undefined, decode: lease.worker, split: undefined },
      pool,
      prefillTokens: 0,
      takesHandoff: false,
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
        : this.#reserve(pool, "decode", call, tries.avoidDecode, tries);
    if (decode === undefined) return noWorkers("decode", call.visit?.allowedRegions);
    const reuse = given !== undefined && pool.prefill.includes(given.prefill) ? given : undefined;
    const prefill =
      reuse !== undefined
        ? { worker: reuse.prefill, tokens: 0, speaks: nothing, release: nothing }
        : this.#reserve(pool, "prefill", call, tries.avoidPrefill, tries);
    if (prefill === undefined) {
      decode.release();
      return noWorkers("prefill", call.visit?.allowedRegions);
    }
    // A part shares its record with others, whose legs are under way.
    if (!call.isPart) beginLegs(call.record, reuse !== undefined);
    this.#note(call, pool, "disaggregated", prefill.worker, decode.worker);
    const attempt = new SplitAttempt(this.#services, call, pool, prefill, decode, id, tries.avoidDecode);
    return {
      tried: { prefill: prefill.worker, decode: decode.worker, split: attempt },
      pool,
      prefillTokens: prefill.tokens,
      takesHandoff: reuse !== undefined,
      run: () => attempt.run(reuse?.handoff),
    };
  }

  /** A worker that has not failed this request yet; where that is not demanded, one that has is better than none. */
  #reserve(
    pool: Pool,
    role: WorkerRole,
    call: Call,
    avoid: ReadonlySet<Worker>,
    { onlyOthers, onlyUntried, lastResort }: Tries,
  ): Lease | undefined {
    const { clock, places, telemetry } = this.#services;
    const now = clock.now();
    const { metrics } = telemetry;
    const reused = this.#reused;
    const told = role === "decode" ? undefined : places.told(pool, call.choice, now);
    const lease =
      choose(pool, role, call.choice, { now, exclude: avoid, told, reused, lastResort }) ??
      (avoid.size > 0 && !onlyOthers && !onlyUntried
        ? choose(pool, role, call.choice, { now, told, reused, lastResort })
        : undefined);
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
    if (call.visit !== undefined)
      this.#services.places.chosen(prefill ?? decode, call.choice, this.#services.clock.now());
  }
}

/** The same pools, one of them before the others. */
function first(pools: readonly Pool[], one: Pool | undefined): readonly Pool[] {
  return one === undefined || !pools.includes(one) ? pools : [one, ...pools.filter((pool) => pool !== one)];
}

/** In turn: a hand-off in hand first looks for a decode, or another way, that has not failed the request. */
const LENIENCIES = ["untried", "usable", "last resort"];
const USUAL = LENIENCIES.slice(1);

/** Where the client's key confines its requests to some regions, that is part of the reason. */
function noWorkers(leg: "prefill" | "decode", regions?: readonly string[]): Failure {
  return new Failure(leg === "prefill" ? "no_prefill_workers" : "no_decode_workers", {
    status: 503,
    stage: leg,
    message: `No ${leg} worker${regions === undefined ? "" : ` in ${regions.join(", ")}`} can take the request`,
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
