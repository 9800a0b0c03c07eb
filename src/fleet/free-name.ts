import type { Fleet } from "../workers/fleet.ts";
import type { WorkerRole } from "../workers/worker.ts";

const DIGITS = 4;
const TRIES = 8;

/**
 * A name nobody has, for a worker that was given none. Alone: the first number that is free, as the configuration counts. Where routers
 * share (`random`) two of them would give one number to two workers, so it is made up; the others take it over. Nothing of the address is in
 * it, nor of a key: names go to clients.
 */
export function freeName(fleet: Fleet, role: WorkerRole, random: (() => number) | undefined): string {
  const base = role === "aggregated" ? "worker" : role;
  for (let tries = 0; random !== undefined && tries < TRIES; tries++) {
    const digits = Math.floor(random() * 16 ** DIGITS).toString(16);
    const name = `${base}-${digits.padStart(DIGITS, "0")}`;
    if (fleet.worker(name) === undefined) return name;
  }
  for (let n = 1; ; n++) if (fleet.worker(`${base}-${n}`) === undefined) return `${base}-${n}`;
}

/** It says nothing to people, so another one does as well. Earlier versions gave numbers to workers that all routers learn of. */
export function isGenerated(name: string): boolean {
  return /^(prefill|decode|worker)-[0-9a-f]+$/.test(name);
}
