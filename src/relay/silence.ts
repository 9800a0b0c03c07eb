import type { Clock } from "../runtime/clock.ts";
import type { RelayObserver } from "./ports.ts";

/** How often at most it is told that events come. */
const TELL_MS = 1_000;

/** Hears that decode has been silent for too long, once. */
export interface SilenceListener {
  silent(): void;
}

/**
 * How long decode has been silent, counted only while the router waits for it: a client that does not read is not decode's silence.
 * Comments and pieces of an event end a wait, but not the silence.
 *
 * A wait costs two field writes and no timer: the one there is runs to the deadline it was set for and looks again. No deadline is earlier
 * than one before it, so it never has to be moved forward.
 */
export class Silence {
  #waiting = false;
  /** An event has come since the last wait began, or there has been none: what comes behind it has kept nobody waiting. */
  #fresh = true;
  #since = 0;
  #spentMs = 0;
  #spoke = false;
  #tellAt = 0;
  #stopTimer: (() => void) | undefined;
  readonly #limitMs: number;
  readonly #clock: Clock;
  readonly #listener: SilenceListener;
  readonly #observer: Pick<RelayObserver, "speaks">;

  /** `limitMs` 0 = no limit. */
  constructor(clock: Clock, limitMs: number, listener: SilenceListener, observer: Pick<RelayObserver, "speaks">) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#listener = listener;
    this.#observer = observer;
  }

  /** The router waits for decode from now on. */
  begin(): void {
    const now = this.#clock.now();
    if (this.#spoke && now >= this.#tellAt) {
      this.#spoke = false;
      this.#tellAt = now + TELL_MS;
      this.#observer.speaks(now);
    }
    if (this.#limitMs <= 0) return;
    this.#waiting = true;
    this.#fresh = false;
    this.#since = now;
    if (this.#stopTimer === undefined) this.#arm(now);
  }

  /** Something came. It ends the wait; whether also the silence is said by `broken` or `goesOn`. */
  pause(): void {
    this.#waiting = false;
  }

  /** An event has come. */
  broken(): void {
    this.#spoke = true;
    this.#fresh = true;
    this.#spentMs = 0;
  }

  /** What came was no event. */
  goesOn(): void {
    if (this.#limitMs <= 0 || this.#fresh) return;
    const now = this.#clock.now();
    this.#spentMs += now - this.#since;
    this.#since = now;
  }

  stop(): void {
    this.#waiting = false;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #left(now: number): number {
    return this.#since + this.#limitMs - this.#spentMs - now;
  }

  #arm(now: number): void {
    this.#stopTimer = this.#clock.after(Math.max(1, this.#left(now)), () => this.#look());
  }

  #look(): void {
    this.#stopTimer = undefined;
    if (!this.#waiting) return;
    const now = this.#clock.now();
    if (this.#left(now) > 0) {
      this.#arm(now);
      return;
    }
    this.#waiting = false;
    this.#listener.silent();
  }
}
