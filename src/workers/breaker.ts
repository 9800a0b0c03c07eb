import type { BreakerConfig } from "../config/schema.ts";

/** `half-open`: the open time is over and one request at a time may try the worker. */
export type BreakerState = "closed" | "open" | "half-open";

/**
 * A half-open worker's probe says nothing before it ends when its answer is a buffered one, which may take minutes. Where nobody else can
 * take a request, another one may try the worker each so often: a worker that hangs then costs one request a second, not all of them.
 */
const ANOTHER_MS = 1_000;

/**
 * Circuit breaker of one worker. It knows three outcomes: success, failure, and neutral, which is no call at all
 * (4xx, 429/503 back-pressure, clients that leave): a neutral answer proves nothing, so it neither opens nor closes.
 *
 * Nothing here runs on a timer: `open` turns into `half-open` when somebody looks after `openMs`.
 */
export class Breaker {
  #config: BreakerConfig;
  readonly #onChange: (to: BreakerState, from: BreakerState) => void;
  #state: BreakerState = "closed";
  #failures = 0;
  #openedAt = 0;
  #openUntil = 0;
  /** Number of the probe that holds the one half-open place, 0 = free. Numbered, so that a late `leave` cannot free another's place. */
  #probe = 0;
  #probeSince = 0;
  #probes = 0;

  constructor(config: BreakerConfig, onChange: (to: BreakerState, from: BreakerState) => void = ignore) {
    this.#config = config;
    this.#onChange = onChange;
  }

  /** Consecutive failures counted so far; 0 unless closed. */
  get failures(): number {
    return this.#failures;
  }

  /** When time alone changes what `allows` or `allowsAnother` says; Infinity = never. It may have passed. */
  get changesAt(): number {
    if (this.#state === "open") return this.#openUntil;
    return this.#probe === 0 ? Infinity : this.#probeSince + ANOTHER_MS;
  }

  state(now: number): BreakerState {
    return this.#state === "open" && now >= this.#openUntil ? "half-open" : this.#state;
  }

  /** Whether a request may go to the worker now. */
  allows(now: number): boolean {
    if (this.#state === "closed") return true;
    return this.state(now) === "half-open" && this.#probe === 0;
  }

  /** The same where nobody else can take it: a probe that has been under way for long is no obstacle. */
  allowsAnother(now: number): boolean {
    return this.allows(now) || (this.state(now) === "half-open" && now >= this.#probeSince + ANOTHER_MS);
  }

  /**
   * Called with every request that is sent, after `allows`. Returns the number of the probe place it took, 0 when it took none
   * (closed). The holder gives it back with `leave`, once, whatever the outcome.
   */
  enter(now: number): number {
    if (this.state(now) !== "half-open" || !this.allowsAnother(now)) return 0;
    this.#probes += 1;
    this.#probe = this.#probes;
    this.#probeSince = now;
    this.#become("half-open");
    return this.#probe;
  }

  /** Frees the probe place if that probe still holds it. The state stays: a probe that ends without an outcome was neutral. */
  leave(probe: number): void {
    if (probe === 0 || probe !== this.#probe) return;
    this.#probe = 0;
    this.#onChange(this.#state, this.#state);
  }

  /**
   * A request ended well: closes a half-open breaker, ends a row of failures. While open it says nothing: only requests from
   * before the failures can still be running.
   */
  succeeded(now: number): void {
    this.#failures = 0;
    if (this.state(now) === "half-open") {
      this.#probe = 0;
      this.#become("closed");
    }
  }

  /** A request failed: opens after `failures` in a row, at once when half-open. While open it changes nothing; the open time is not extended. */
  failed(now: number): void {
    if (!this.#config.enabled) return;
    const state = this.state(now);
    if (state === "open") return;
    if (state === "closed") {
      this.#failures += 1;
      if (this.#failures < this.#config.failures) return;
    }
    this.#failures = 0;
    this.#probe = 0;
    this.#openedAt = now;
    this.#openUntil = now + this.#config.openMs;
    this.#become("open");
  }

  /** New limits at run time; a breaker that is switched off closes. A shorter open time counts for one that is open already, a longer one does not. */
  configure(config: BreakerConfig): void {
    this.#config = config;
    if (config.enabled) {
      this.#openUntil = Math.min(this.#openUntil, this.#openedAt + config.openMs);
      this.#onChange(this.#state, this.#state);
      return;
    }
    this.#failures = 0;
    this.#probe = 0;
    this.#become("closed");
  }

  #become(to: BreakerState): void {
    const from = this.#state;
    this.#state = to;
    this.#onChange(to, from);
  }
}

function ignore(): void {}
