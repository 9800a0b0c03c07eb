import type { ChoiceInput, Policy, Told } from "../policy.ts";
import type { Worker } from "../worker.ts";
import type { PolicyPorts } from "./create.ts";
import { type Holders, PrefixIndex } from "./prefix-index.ts";
import { LeastPressure } from "./pressure.ts";
import { PromptBlocks } from "./prompt-blocks.ts";

const CHARS_PER_TOKEN = 4;
/** A smaller share of the prompt than this is not worth an unequal load: such prompts count as new and are spread. */
const LEAST_MATCH = 0.3;
/**
 * Tokens of this prompt weigh more than tokens in the queue: computing a known prompt elsewhere also makes a second copy, which takes
 * the place of somebody else's. On the multi-turn trace of `bench/policies.ts` 1.5 instead of 1 leaves a quarter less to compute, and
 * the busiest worker a fifth less; 3 makes the load lopsided.
 */
const FRESH_WEIGHT = 1.5;
/** What a request in hand costs besides its tokens, in tokens. */
const REQUEST_TOKENS = 64;
/** When the favoured worker has so many more requests than the least loaded, by both measures, the shortest queue wins. */
const UNBALANCED_REQUESTS = 16;
const UNBALANCED_RATIO = 1.5;
/** Pairs (16 bytes each) per worker, and the bounds of the table: 0.5 to 64 MiB. */
const PAIRS_PER_WORKER = 4096;
const LEAST_PAIRS = 2 ** 15;
const MOST_PAIRS = 2 ** 22;
/** What a worker's KV cache is taken to hold: 2 million tokens. */
const OWNER_CHARS = 2 ** 21 * CHARS_PER_TOKEN;
const TTL_MS = 30 * 60_000;
const MOST_WORKERS = 65_535;

/**
 * Sends a prompt where its beginning is cached, unless waiting there costs more than computing it anew elsewhere: both sides are
 * counted in prompt tokens (queued work + this prompt − expected reuse, against the weight). Prompts that nobody knows go to the
 * worker with the least in hand.
 *
 * What a worker has cached is inferred from what it was sent. Hashes are kept, never text (`PrefixIndex`, `PromptBlocks`).
 */
export class PrefixAware implements Policy {
  readonly name = "prefix-aware";
  readonly #ports: PolicyPorts;
  readonly #least = new LeastPressure();
  readonly #blocks = new PromptBlocks();
  readonly #owners = new Map<Worker, number>();
  readonly #workers: (Worker | undefined)[] = [undefined];
  readonly #freeOwners: number[] = [];
  #index: PrefixIndex | undefined;
  #sizedFor = 0;
  #seed = 0;
  /** The input whose hashes `#blocks` holds; let go of in `observe`, so that no prompt stays in memory. */
  #read: ChoiceInput | undefined;

  constructor(ports: PolicyPorts) {
    this.#ports = ports;
  }

  /** Bytes of the index as it is now. */
  get bytes(): number {
    return this.#index?.bytes ?? 0;
  }

  choose(candidates: readonly Worker[], input: ChoiceInput, told?: Told): Worker | undefined {
    if (candidates.length < 2) return candidates[0];
    const shortest = this.#least.find(candidates, input.tokens)!;
    const holders = this.#find(candidates, input);
    let best: Worker | undefined;
    let least = work(shortest, input.tokens);
    for (let index = 0; index < holders.count; index++) {
      const worker = this.#workers[holders.owners[index]!];
      if (worker === undefined) continue;
      const reused = Math.min(holders.chars[index]! / CHARS_PER_TOKEN, input.tokens);
      if (reused < LEAST_MATCH * input.tokens) continue;
      const cost = work(worker, input.tokens - reused);
      const better = cost < least || (cost === least && best !== undefined && worker.lastChoice < best.lastChoice);
      if (!better || unbalanced(worker, shortest) || !candidates.includes(worker)) continue;
      best = worker;
      least = cost;
    }
    if (told !== undefined && told.tokens >= LEAST_MATCH * input.tokens) {
      const worker = candidates.find(({ name }) => name === told.worker);
      const cost = worker === undefined ? Infinity : work(worker, input.tokens - Math.min(told.tokens, input.tokens));
      if (worker !== undefined && cost < least && !unbalanced(worker, shortest)) best = worker;
    }
    return best ?? shortest;
  }

  observe(worker: Worker, input: ChoiceInput): number {
    this.#hash(input);
    this.#read = undefined;
    if (this.#blocks.count === 0) return 0;
    const owner = this.#owner(worker);
    if (owner === 0) return 0;
    const chars = this.#table(1).remember(owner, this.#blocks, this.#ports.now());
    return Math.min(chars / CHARS_PER_TOKEN, input.tokens);
  }

  reuse(candidates: readonly Worker[], input: ChoiceInput): number {
    const holders = this.#find(candidates, input);
    let most = 0;
    for (let index = 0; index < holders.count; index++) {
      const worker = this.#workers[holders.owners[index]!];
      if (worker !== undefined && holders.chars[index]! > most && candidates.includes(worker))
        most = holders.chars[index]!;
    }
    return Math.min(most / CHARS_PER_TOKEN, input.tokens);
  }

  forget(worker: Worker): void {
    const owner = this.#owners.get(worker);
    if (owner === undefined) return;
    this.#owners.delete(worker);
    this.#workers[owner] = undefined;
    this.#freeOwners.push(owner);
    this.#index?.forget(owner);
  }

  #find(candidates: readonly Worker[], input: ChoiceInput): Holders {
    this.#hash(input);
    return this.#table(candidates.length).find(this.#blocks, this.#ports.now());
  }

  #hash(input: ChoiceInput): void {
    if (this.#read === input) return;
    if (this.#seed === 0) this.#seed = 1 + Math.floor(this.#ports.random() * 0x7fffffff);
    this.#blocks.read(input.prompt(), this.#seed);
    this.#read = input;
  }

  /** Made at the first request, and anew when the fleet has outgrown it: that costs a few cold prompts, once. */
  #table(workers: number): PrefixIndex {
    if (this.#index === undefined || workers > this.#sizedFor) {
      const pairs = Math.min(Math.max(workers * PAIRS_PER_WORKER, LEAST_PAIRS), MOST_PAIRS);
      const rounded = 2 ** Math.ceil(Math.log2(pairs));
      this.#index = new PrefixIndex(rounded, OWNER_CHARS, TTL_MS);
      this.#sizedFor = rounded === MOST_PAIRS ? Infinity : rounded / PAIRS_PER_WORKER;
    }
    return this.#index;
  }

  /** A small number for a worker; 0 when all are given away. */
  #owner(worker: Worker): number {
    const known = this.#owners.get(worker);
    if (known !== undefined) return known;
    const owner = this.#freeOwners.pop() ?? this.#workers.length;
    if (owner > MOST_WORKERS) return 0;
    this.#workers[owner] = worker;
    this.#owners.set(worker, owner);
    return owner;
  }
}

/** What it takes until this prompt is done, in tokens to be computed; `fresh` are its own. */
function work(worker: Worker, fresh: number): number {
  const { load, elsewhere, weight } = worker;
  const requests = load.requests + elsewhere.requests;
  return (load.tokens + elsewhere.tokens + requests * REQUEST_TOKENS + fresh * FRESH_WEIGHT) / weight;
}

function unbalanced(worker: Worker, shortest: Worker): boolean {
  const most = (worker.load.requests + worker.elsewhere.requests) / worker.weight;
  const least = (shortest.load.requests + shortest.elsewhere.requests) / shortest.weight;
  return most - least > UNBALANCED_REQUESTS && most > least * UNBALANCED_RATIO;
}
