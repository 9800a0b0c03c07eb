import type { Clock } from "./clock.ts";

/** A clock of plain timers, for platforms where nothing may outlive the request that started it (Workers). */
export const requestClock: Clock = {
  now: () => performance.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};
