import type { Fleet } from "../workers/fleet.ts";
import { hashText, type WorkerRole } from "../workers/worker.ts";

const FEWEST_DIGITS = 4;
const MOST_DIGITS = 8;

/**
 * A name nobody has, for a worker that was given none. Alone: the first number that is free, as the configuration counts. Where routers
 * share (`seed`: the same in all of them, and known to nobody else) two of them would give one number to two workers, so it is a hash of
 * the address, as short as it can be. Names go to clients: nobody must be able to try out addresses.
 */
export function freeName(fleet: Fleet, role: WorkerRole, url: string, seed: number | undefined): string {
  const base = role === "aggregated" ? "worker" : role;
  const hash = seed === undefined ? "" : spread(hashText(url, seed)).toString(16).padStart(MOST_DIGITS, "0");
  for (let digits = FEWEST_DIGITS; digits <= hash.length; digits++) {
    const name = `${base}-${hash.slice(0, digits)}`;
    if (fleet.worker(name) === undefined) return name;
  }
  for (let n = 1; ; n++) if (fleet.worker(`${base}-${n}`) === undefined) return `${base}-${n}`;
}

/** It says nothing to people, so another one does as well. Earlier versions gave numbers to workers that all routers learn of. */
export function isGenerated(name: string): boolean {
  return /^(prefill|decode|worker)-[0-9a-f]+$/.test(name);
}

/** The last characters of a text, where addresses differ, hardly reach the upper bits of its hash. */
function spread(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}
