import type { LimitsConfig } from "../config/schema.ts";
import { Failure } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";
import { deferred } from "../runtime/deferred.ts";

/** A place among the requests in progress, held until the request's stream has ended. */
export interface Permit {
  /** Milliseconds it was waited for. */
  readonly waitedMs: number;
  /** Gives the place back; any number of calls counts once. */
  release(): void;
}

export type AdmissionLimits = Pick<LimitsConfig, "concurrency" | "queue" | "queueMs">;

/** A request that waits. `permit` is what `enter` returned; `leave` takes it out of the queue (its client has gone). */
export interface Waiting {
  /** Rejects with a Failure `queue_timeout` or `shutting_down`, never otherwise; stays open for ever after `leave`. */
  readonly permit: Promise<Permit>;
  leave(): void;
}

export type Admitted = { permit: Permit } | { waiting: Waiting } | { refusal: Failure };

const OVERLOADED_RETRY_SECONDS = 1;

/**
 * The door: at most `concurrency` requests in progress, `queue` waiting places in front of it. The queue is ordered by priority
 * (higher first), first come first served among equals. Without a queue nothing ever waits and no promise is made.
 */
export class Admission {
  readonly #clock: Clock;
  #limits: AdmissionLimits;
  #active = 0;
  /** By priority, then arrival. Waiting places are few (hundreds), so inserting by search and shifting is cheap. */
  readonly #queue: Waiter[] = [];
  #closed: Failure | undefined;

  constructor(limits: AdmissionLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Requests in progress. */
  get active(): number {
    return this.#active;
  }

  /** Requests that wait. */
  get queued(): number {
    return this.#queue.length;
  }

  /** A place at once, a place to wait for, or a Failure (`router_overloaded`, `shutting_down`) with Retry-After. */
  enter(priority = 0): Admitted {
    if (this.#closed !== undefined) return { refusal: this.#closed };
    if (this.#active < this.#limits.concurrency) {
      this.#active += 1;
      return { permit: new Place(this.#leave, 0) };
    }
    if (this.#queue.length >= this.#limits.queue) return { refusal: overloaded() };
    return { waiting: this.#wait(priority) };
  }

  /** Lets nobody in any more, and turns away those who wait (contract section 4, `shutting_down`). Running requests are left alone. */
  close(retryAfterSeconds: number): void {
    this.#closed = new Failure("shutting_down", {
      status: 503,
      stage: "router",
      message: "The router is shutting down",
      retryAfterSeconds,
    });
    for (const waiter of this.#queue.splice(0)) waiter.refuse(this.#closed);
  }

  /** New limits at run time. A lower limit takes nobody's place away. */
  configure(limits: AdmissionLimits): void {
    this.#limits = limits;
    this.#fill();
  }

  #wait(priority: number): Waiting {
    const { promise, resolve, reject } = deferred<Permit>();
    const since = this.#clock.now();
    const waiter: Waiter = {
      priority,
      admit: () => {
        cancelTimer();
        resolve(new Place(this.#leave, this.#clock.now() - since));
      },
      refuse: (failure) => {
        cancelTimer();
        reject(failure);
      },
    };
    const { queueMs } = this.#limits;
    const cancelTimer =
      queueMs === 0
        ? nothing
        : this.#clock.after(queueMs, () => {
            if (this.#drop(waiter)) waiter.refuse(waitedTooLong(queueMs));
          });
    this.#insert(waiter);
    return {
      permit: promise,
      leave: () => {
        if (this.#drop(waiter)) return cancelTimer();
        // Admitted in the same tick, with nobody left to take the place.
        promise.then(release, nothing);
      },
    };
  }

  #insert(waiter: Waiter): void {
    let low = 0;
    let high = this.#queue.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#queue[middle]!.priority >= waiter.priority) low = middle + 1;
      else high = middle;
    }
    this.#queue.splice(low, 0, waiter);
  }

  #drop(waiter: Waiter): boolean {
    const index = this.#queue.indexOf(waiter);
    if (index < 0) return false;
    this.#queue.splice(index, 1);
    return true;
  }

  readonly #leave = (): void => {
    this.#active -= 1;
    this.#fill();
  };

  #fill(): void {
    while (this.#queue.length > 0 && this.#active < this.#limits.concurrency) {
      this.#active += 1;
      this.#queue.shift()!.admit();
    }
  }
}

interface Waiter {
  readonly priority: number;
  admit(): void;
  refuse(failure: Failure): void;
}

class Place implements Permit {
  readonly waitedMs: number;
  #leave: (() => void) | undefined;

  constructor(leave: () => void, waitedMs: number) {
    this.#leave = leave;
    this.waitedMs = waitedMs;
  }

  release(): void {
    const leave = this.#leave;
    this.#leave = undefined;
    leave?.();
  }
}

/** Priority of a request from its `x-request-priority`: a whole number, higher = sooner, within ±100; anything else is 0. */
export function requestPriority(header: string | null | undefined): number {
  if (!header || !/^[+-]?\d{1,3}$/.test(header.trim())) return 0;
  return Math.max(-100, Math.min(100, Number(header)));
}

function overloaded(): Failure {
  return new Failure("router_overloaded", {
    status: 503,
    stage: "router",
    message: "The router has as many requests in progress as it may have",
    retryAfterSeconds: OVERLOADED_RETRY_SECONDS,
  });
}

function waitedTooLong(queueMs: number): Failure {
  return new Failure("queue_timeout", {
    status: 503,
    stage: "router",
    message: `The request has waited ${queueMs} ms for its turn`,
    retryAfterSeconds: OVERLOADED_RETRY_SECONDS,
  });
}

function release(permit: Permit): void {
  permit.release();
}

function nothing(): void {}
