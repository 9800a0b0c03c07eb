import { heapStats } from "bun:jsc";
import { readdirSync, readlinkSync } from "node:fs";
import type { Stand } from "./stand.ts";

/** What is in use at one moment. Megabytes are 10^6 bytes. */
export interface Level {
  seconds: number;
  /** Open sockets of the process: listeners, clients, connections to engines, and their other ends. */
  sockets: number;
  heapMb: number;
  rssMb: number;
  /** Legs and prompt tokens that workers are believed to have in hand. */
  load: number;
  tokens: number;
  /** Requests whose response is not over, and those that hold a place. */
  active: number;
  admitted: number;
  drains: number;
  /** Requests the engines themselves have not ended, and rooms in which one leg waits for the other. */
  engines: number;
  rooms: number;
  /** Live objects of the kinds a router leaks when it leaks. */
  objects: number;
  /** The longest that the process has been held up since the last level, milliseconds: by itself, or by a busy machine. */
  lagMs: number;
}

const KINDS = [
  "AbortController",
  "AbortSignal",
  "Promise",
  "ReadableStream",
  "Request",
  "Response",
  "Headers",
  "TCPSocket",
];

/** Reads all levels. `collect` runs the garbage collector first, so that only what is reachable counts. */
export async function readLevel({ router, engines }: Stand, seconds: number, collect: boolean): Promise<Level> {
  if (collect) Bun.gc(true);
  const { heapSize, objectTypeCounts } = heapStats();
  const workers = router.services.fleet.workers();
  return {
    seconds: Math.round(seconds),
    sockets: openSockets(),
    heapMb: heapSize / 1e6,
    rssMb: process.memoryUsage.rss() / 1e6,
    load: sum(workers, ({ load }) => load.requests),
    tokens: sum(workers, ({ load }) => load.tokens),
    active: router.active(),
    admitted: router.admission.active,
    drains: await readDrains(router),
    engines: sum(engines, ({ inFlight }) => inFlight),
    rooms: sum(engines, ({ side }) => side?.openRooms ?? 0),
    objects: sum(KINDS, (kind) => objectTypeCounts[kind] ?? 0),
    lagMs: takeLag(),
  };
}

const LAG_STEP_MS = 20;
let longestLag = 0;
let lastStep = 0;

/** Measures from now on how late timers come. Returns what ends it. */
export function watchLag(): () => void {
  lastStep = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    longestLag = Math.max(longestLag, now - lastStep - LAG_STEP_MS);
    lastStep = now;
  }, LAG_STEP_MS);
  return () => clearInterval(timer);
}

function takeLag(): number {
  const lag = longestLag;
  longestLag = 0;
  return lag;
}

async function readDrains(router: Stand["router"]): Promise<number> {
  const page = await router.fetch(new Request("http://router.test/metrics"));
  const value = /^prefill_router_drains_open (\d+)$/m.exec(await page.text())?.[1];
  if (value === undefined) throw new Error("The metrics page does not tell of open drains");
  return Number(value);
}

/** Linux tells what each descriptor is. Elsewhere all descriptors are counted, which is as good for a comparison. */
export function openSockets(): number {
  try {
    return readdirSync("/proc/self/fd").filter(isSocket).length;
  } catch {
    return readdirSync("/dev/fd").length;
  }
}

function isSocket(descriptor: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`).startsWith("socket:");
  } catch {
    // Closed since it was listed; the listing itself had one.
    return false;
  }
}

function sum<T>(of: readonly T[], value: (each: T) => number): number {
  return of.reduce((total, each) => total + value(each), 0);
}
