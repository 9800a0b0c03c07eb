import type { ChoiceInput, Policy } from "../policy.ts";
import { hashText, type Worker } from "../worker.ts";

/** No worker takes more than this much of the average load by affinity alone; so many requests are always fine. */
const BOUND = 1.25;
const FREE_REQUESTS = 4;
/** Characters of a session key that are looked at. */
const KEY_CHARS = 512;

/**
 * Rendezvous hashing on the session key with bounded load. Stateless: isolates and processes that share nothing agree, and when a
 * worker leaves only its own sessions move. A worker that is full by the bound passes its session to the next in that session's
 * own order.
 */
export class ConsistentHash implements Policy {
  readonly name = "consistent-hash";

  choose(candidates: readonly Worker[], input: ChoiceInput): Worker | undefined {
    if (candidates.length < 2) return candidates[0];
    const key = hashText(input.session().slice(0, KEY_CHARS));
    let requests = 0;
    let weights = 0;
    let best: Worker | undefined;
    let most = -1;
    for (const worker of candidates) {
      requests += worker.load.requests;
      weights += worker.weight;
      const rank = ranked(key, worker);
      if (rank > most) {
        most = rank;
        best = worker;
      }
    }
    const share = (BOUND * (requests + 1)) / weights;
    if (!full(best!, share)) return best;
    return nextInOrder(candidates, key, share) ?? best;
  }
}

/** The bound is above the average, so somebody is always below it; weights that round badly are why this may be undefined. */
function nextInOrder(candidates: readonly Worker[], key: number, share: number): Worker | undefined {
  let best: Worker | undefined;
  let most = -1;
  for (const worker of candidates) {
    const rank = ranked(key, worker);
    if (rank > most && !full(worker, share)) {
      most = rank;
      best = worker;
    }
  }
  return best;
}

function full(worker: Worker, share: number): boolean {
  return worker.load.requests >= Math.max(FREE_REQUESTS, Math.ceil(share * worker.weight));
}

/** A number above 0, higher = sooner. With u uniform, u^(1/weight) is the greatest in proportion to the weights. */
function ranked(key: number, worker: Worker): number {
  const u = (mix(key ^ worker.hash) + 0.5) / 4294967296;
  return worker.weight === 1 ? u : u ** (1 / worker.weight);
}

/** Every input bit reaches every output bit (the finaliser of MurmurHash3): neighbouring keys must not rank alike. */
function mix(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
