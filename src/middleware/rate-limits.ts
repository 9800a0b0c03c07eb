import type { ClientKey } from "../config/secrets.ts";
import { Failure } from "../errors/failure.ts";
import type { Clock } from "../runtime/clock.ts";

type Headers = readonly (readonly [string, string])[];

const NONE: Headers = [];
const MINUTE_MS = 60_000;

/**
 * A limit per minute as a bucket that refills steadily: a burst may use the whole minute's allowance at once, and what is used comes back
 * evenly, so there is no edge of a minute at which everybody returns. Plain numbers, no timer.
 */
class Bucket {
  #level: number;
  #at: number;

  constructor(limit: number, now: number) {
    this.#level = limit;
    this.#at = now;
  }

  /** What may be taken now; below zero: a request larger than the whole allowance is being worked off. */
  level(limit: number, now: number): number {
    this.#level = Math.min(limit, this.#level + ((now - this.#at) * limit) / MINUTE_MS);
    this.#at = now;
    return this.#level;
  }

  take(amount: number): void {
    this.#level -= amount;
  }
}

/** A bucket for each limit that the key has. One without a limit would only gather debts for the day that brings it one. */
interface Usage {
  requests: Bucket | undefined;
  tokens: Bucket | undefined;
}

/**
 * Per-key limits of requests and estimated prompt tokens per minute (contract section 2, `auth.clientKeys`). Known per process: several
 * routers each allow the whole limit.
 */
export class RateLimits {
  readonly #clock: Clock;
  /** By the key's configured name, so there are never more than configured keys. */
  readonly #usage = new Map<string, Usage>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Counts one request of `tokens` estimated prompt tokens. Returns the `x-ratelimit-*` headers its answer carries; throws `rate_limited`
   * (429, `Retry-After`) when a limit is used up. A request that asks for more tokens than a minute's allowance passes when nothing of it is
   * used, for it could never pass otherwise, and is worked off afterwards.
   */
  take(key: ClientKey | undefined, tokens: number): Headers {
    if (key === undefined || (key.requestsPerMinute === undefined && key.tokensPerMinute === undefined)) return NONE;
    const now = this.#clock.now();
    const usage = this.#usageOf(key, now);
    const requestsLimit = key.requestsPerMinute ?? Number.POSITIVE_INFINITY;
    const tokensLimit = key.tokensPerMinute ?? Number.POSITIVE_INFINITY;
    const requestsWait = waitMs(usage.requests, requestsLimit, 1, now);
    const tokensWait = waitMs(usage.tokens, tokensLimit, Math.min(tokens, tokensLimit), now);
    const wait = Math.max(requestsWait, tokensWait);
    if (wait === 0) {
      usage.requests?.take(1);
      usage.tokens?.take(tokens);
    }
    const headers = [
      ...shown("requests", usage.requests, key.requestsPerMinute, now),
      ...shown("tokens", usage.tokens, key.tokensPerMinute, now),
    ];
    if (wait === 0) return headers;
    throw new Failure("rate_limited", {
      status: 429,
      stage: "router",
      message:
        requestsWait >= tokensWait
          ? `The key's limit of ${requestsLimit} requests per minute is used up`
          : `The key's limit of ${tokensLimit} prompt tokens per minute is used up`,
      retryAfterSeconds: wait / 1000,
      headers,
    });
  }

  /** A reload may have given the key a limit, or taken one away. */
  #usageOf({ name, requestsPerMinute, tokensPerMinute }: ClientKey, now: number): Usage {
    let usage = this.#usage.get(name);
    if (usage === undefined) {
      usage = { requests: undefined, tokens: undefined };
      this.#usage.set(name, usage);
    }
    usage.requests = bucketFor(usage.requests, requestsPerMinute, now);
    usage.tokens = bucketFor(usage.tokens, tokensPerMinute, now);
    return usage;
  }
}

function bucketFor(known: Bucket | undefined, limit: number | undefined, now: number): Bucket | undefined {
  return limit === undefined ? undefined : (known ?? new Bucket(limit, now));
}

/** Milliseconds until `amount` may be taken; 0 = now. */
function waitMs(bucket: Bucket | undefined, limit: number, amount: number, now: number): number {
  if (bucket === undefined) return 0;
  const missing = amount - bucket.level(limit, now);
  return missing <= 1e-9 ? 0 : (missing * MINUTE_MS) / limit;
}

/** `x-ratelimit-limit-*`, `-remaining-*`, `-reset-*` (seconds until the whole allowance is back), in OpenAI's names. */
function shown(
  what: "requests" | "tokens",
  bucket: Bucket | undefined,
  limit: number | undefined,
  now: number,
): Headers {
  if (bucket === undefined || limit === undefined) return NONE;
  const left = bucket.level(limit, now);
  const reset = ((limit - left) * 60) / limit;
  return [
    [`x-ratelimit-limit-${what}`, String(limit)],
    [`x-ratelimit-remaining-${what}`, String(Math.max(0, Math.floor(left)))],
    [`x-ratelimit-reset-${what}`, `${Math.max(0, Math.ceil(reset))}s`],
  ];
}
