import type { Clock } from "../runtime/clock.ts";

/** The machine's own time, from web standards alone. */
export const systemClock: Clock = {
  now: readNow,
  after: startTimer,
};

function readNow(): number {
  return performance.now();
}

function startTimer(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, ms);
  return function takeBack(): void {
    clearTimeout(timer);
  };
}

/** The client has hung up while the engine was waiting. Ends a script; nobody sees it. */
export class ClientLeft extends Error {
  override readonly name = "ClientLeft";
  constructor() {
    super("The client closed its connection");
  }
}

/** Waits `ms` on the clock. Rejects with ClientLeft when the signal aborts first. No time at all costs no timer. */
export async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw new ClientLeft();
  if (ms <= 0) return;
  await new Promise<void>(function wait(resolve, reject) {
    const takeBack = clock.after(ms, function wake() {
      signal.removeEventListener("abort", leave);
      resolve();
    });
    function leave(): void {
      takeBack();
      reject(new ClientLeft());
    }
    signal.addEventListener("abort", leave, { once: true });
  });
}

/** A promise that also ends when the client leaves (ClientLeft). The work behind it is not cancelled. */
export function orLeft<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>(function race(resolve, reject) {
    if (signal.aborted) return reject(new ClientLeft());
    function leave(): void {
      reject(new ClientLeft());
    }
    signal.addEventListener("abort", leave, { once: true });
    function forget(): void {
      signal.removeEventListener("abort", leave);
    }
    work.then(resolve, reject).finally(forget);
  });
}

/** Settles with `late` when `ms` have passed before the work was done. `ms` 0 = no limit. */
export function within<T, L>(clock: Clock, ms: number, work: Promise<T>, late: L): Promise<T | L> {
  if (ms <= 0) return work;
  return new Promise<T | L>(function race(resolve, reject) {
    const takeBack = clock.after(ms, function ring() {
      resolve(late);
    });
    work.then(resolve, reject).finally(takeBack);
  });
}
