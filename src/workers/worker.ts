import type { BreakerConfig, HealthConfig } from "../config/schema.ts";
import type { EngineName, LegTarget } from "../engines/dialect.ts";
import { Breaker, type BreakerState } from "./breaker.ts";
import { WorkerHealth } from "./health.ts";

export type WorkerRole = "prefill" | "decode" | "aggregated";

/** What a worker has in hand, counted from the moment of choice until the lease is released. */
export interface WorkerLoad {
  requests: number;
  /** Prompt tokens still to be computed, estimated; what the worker is expected to have cached is not in it. */
  tokens: number;
}

/** How a worker came in: with the configuration, through the admin routes, or as an address of a `dns+` worker. */
export type WorkerOrigin = "config" | "api" | "dns";

/** A target as configured: what an engine tells about itself may be left open. */
export type ConfiguredTarget = Omit<LegTarget, "bootstrapPort" | "dpSize" | "guessed"> & {
  bootstrapPort: number | undefined;
  dpSize: number | undefined;
};

/** What the engine told about itself; fills in what the configuration leaves open, and never overrules it. */
export interface Told {
  bootstrapPort?: number | undefined;
  dpSize?: number | undefined;
  /** vLLM with Mooncake: its data-parallel ranks with their engine ids; requests take turns over them. */
  mooncake?: readonly MooncakeRank[] | undefined;
}

export type MooncakeRank = NonNullable<LegTarget["mooncake"]>;

/** What may change while the worker stays the same one. */
export interface WorkerSettings {
  weight: number;
  /** Sent as `authorization: Bearer`; undefined: the client's own header rules (contract section 7). */
  apiKey: string | undefined;
  target: ConfiguredTarget;
}

export interface WorkerOptions extends WorkerSettings {
  name: string;
  role: WorkerRole;
  /** Base URL, no slash at its end. */
  url: string;
  model: string;
  pool: string;
  engine: EngineName;
  breaker: BreakerConfig;
  health: HealthConfig;
  events?: WorkerEvents | undefined;
  /** Default `config`. */
  origin?: WorkerOrigin | undefined;
}

/** For metrics and the log. They must not throw. */
export interface WorkerEvents {
  onBreaker?(worker: Worker, to: BreakerState, from: BreakerState): void;
  onHealth?(worker: Worker, healthy: boolean): void;
}

/** What holds when neither the configuration nor the engine says otherwise (SGLang's and Mooncake's own defaults). */
export const BOOTSTRAP_PORT = 8998;
export const DP_SIZE = 1;

/** Back-pressure without a Retry-After, and the most that one is believed. */
const DEFAULT_AVOID_MS = 1_000;
const LONGEST_AVOID_MS = 60_000;

/**
 * One engine the router may send legs to. Plain state: it opens no connection and starts no timer. All times are the router's
 * monotonic milliseconds.
 */
export class Worker {
  readonly name: string;
  readonly role: WorkerRole;
  readonly url: string;
  readonly model: string;
  readonly pool: string;
  readonly engine: EngineName;
  /** A worker that joined is `config` once the configuration names it. */
  origin: WorkerOrigin;
  /** Equal in every process and isolate for the same worker: what rendezvous hashing ranks by. */
  readonly hash: number;
  readonly load: WorkerLoad = { requests: 0, tokens: 0 };
  /** What other routers say they have in hand there (`src/shared/`); all 0 without a store. */
  readonly elsewhere: WorkerLoad = { requests: 0, tokens: 0 };
  /** The same as one number (`pullOf`). */
  pull = 0;
  readonly breaker: Breaker;
  readonly health: WorkerHealth;
  weight: number;
  apiKey: string | undefined;
  target: LegTarget;
  /** Until then it has asked to be left alone (`Retry-After`); used all the same when nobody else can take a request. */
  avoidUntil = 0;
  /** Number of the latest choice of this worker, 0 = never: the one chosen longest ago wins a tie. */
  lastChoice = 0;
  /** Called when `usable` may have changed; set by the worker's set. */
  onChange: () => void = ignore;
  #draining = false;
  #healthy = true;
  #configured: ConfiguredTarget;
  /** Undefined until its engine has been asked, in vain or not. */
  #told: Told | undefined;
  #turn = 0;

  constructor(options: WorkerOptions) {
    this.name = options.name;
    this.role = options.role;
    this.url = options.url;
    this.model = options.model;
    this.pool = options.pool;
    this.engine = options.engine;
    this.weight = options.weight;
    this.apiKey = options.apiKey;
    this.origin = options.origin ?? "config";
    this.#configured = options.target;
    this.target = merged(options.target, this.#told);
    this.hash = hashText(options.url);
    const { events } = options;
    this.breaker = new Breaker(options.breaker, (to, from) => {
      this.onChange();
      if (to !== from) events?.onBreaker?.(this, to, from);
    });
    this.health = new WorkerHealth(options.engine, options.health, (healthy) => {
      this.onChange();
      if (healthy !== this.#healthy) events?.onHealth?.(this, healthy);
      this.#healthy = healthy;
    });
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** A draining worker ends what it has and gets nothing new. */
  set draining(value: boolean) {
    this.#draining = value;
    this.onChange();
  }

  /** Whether a request may be sent to it now. */
  usable(now: number): boolean {
    return !this.#draining && this.health.healthy(now) && this.breaker.allows(now);
  }

  /** As `usable`, but a worker whose one half-open probe is under way counts too: readiness must not flicker with each probe. */
  serving(now: number): boolean {
    return !this.#draining && this.health.healthy(now) && this.breaker.state(now) !== "open";
  }

  /** As `usable`, but a half-open one whose probe has been long without a word may be tried again; for where nobody else is left. */
  worthATry(now: number): boolean {
    return !this.#draining && this.health.healthy(now) && this.breaker.allowsAnother(now);
  }

  /** When one of these, or the wish to be avoided, changes next by time alone; Infinity = by time alone never. */
  changesAt(now: number): number {
    return Math.min(ahead(this.breaker.changesAt, now), ahead(this.health.changesAt, now), ahead(this.avoidUntil, now));
  }

  /** A request ended well. */
  succeeded(now: number): void {
    this.breaker.succeeded(now);
    this.health.answered(now);
  }

  /** A request failed by the worker's fault: unreachable, reset, cut, timed out, 5xx other than 503, an error inside a 200. */
  failed(now: number): void {
    this.breaker.failed(now);
    this.health.suspect(now);
  }

  /**
   * The worker said 429 or 503: neutral for the breaker, and while `retryAfterMs` (its Retry-After; undefined = it named none) lasts
   * the others are preferred.
   */
  busy(now: number, retryAfterMs?: number): void {
    const ms = Math.min(Math.max(retryAfterMs ?? DEFAULT_AVOID_MS, 0), LONGEST_AVOID_MS);
    this.avoidUntil = Math.max(this.avoidUntil, now + ms);
    this.health.answered(now);
    this.onChange();
  }

  /**
   * Other routers have found it broken `since` then: until the given time the others are preferred. Hearsay closes nothing; an answer of
   * its own counts more.
   */
  warned(since: number, until: number): void {
    if (this.answeredSince(since) || until <= this.avoidUntil) return;
    this.avoidUntil = until;
    this.onChange();
  }

  /** Any answer with an HTTP status: a sign of life for the health check, no outcome for the breaker (4xx and the like). */
  answered(now: number): void {
    this.health.answered(now);
  }

  /** Whether it has answered any request since then: one that has does not hang. */
  answeredSince(at: number): boolean {
    return this.health.lastAnswerAt >= at;
  }

  /** New settings at run time; load, breaker and health stay. */
  configure(settings: WorkerSettings): void {
    this.weight = settings.weight;
    this.apiKey = settings.apiKey;
    this.#configured = settings.target;
    this.#retarget();
    this.onChange();
  }

  /** What the configuration itself says of the target. */
  get configured(): ConfiguredTarget {
    return this.#configured;
  }

  /** Takes over what the engine told about itself; it replaces what it told before. */
  learn(told: Told): void {
    this.#told = told;
    this.#retarget();
  }

  /** A request goes to it: the next rank has its turn (the router names the rank; the engine cannot balance what it is told). */
  turn(): void {
    const ranks = this.#told?.mooncake;
    if (ranks === undefined || ranks.length < 2) return;
    this.#turn = (this.#turn + 1) % ranks.length;
    this.target = { ...this.target, mooncake: ranks[this.#turn] };
  }

  #retarget(): void {
    this.target = merged(this.#configured, this.#told);
  }
}

/** A moment that has passed changes nothing any more; beside it one that is to come must not be overlooked. */
function ahead(at: number, now: number): number {
  return at > now ? at : Infinity;
}

function merged(configured: ConfiguredTarget, told: Told | undefined): LegTarget {
  return {
    ...configured,
    bootstrapPort: configured.bootstrapPort ?? told?.bootstrapPort ?? BOOTSTRAP_PORT,
    guessed: configured.bootstrapPort === undefined && told === undefined,
    dpSize: configured.dpSize ?? told?.dpSize ?? DP_SIZE,
    // Knowledge, not configuration: new settings leave it as it is.
    mooncake: configured.mooncake ?? told?.mooncake?.[0],
  };
}

/** FNV-1a over the text's UTF-16 units: 32 bits. */
export function hashText(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}

function ignore(): void {}
