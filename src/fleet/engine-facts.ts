import { type Clock, within } from "../runtime/clock.ts";
import type { Fleet } from "../workers/fleet.ts";
import type { Worker } from "../workers/worker.ts";
import type { Ask } from "./ask.ts";
import { readMooncakeRanks } from "./mooncake-query.ts";
import { readServerInfo, SERVER_INFO_PATHS, type ServerInfo } from "./server-info.ts";

/** Two answers, each as long as one may take, and some more. */
const LOST_MS = 12_000;
/** What has a default is worth no longer wait, and only one. */
const GUESS_MS = 1_000;
/** Engines that do not answer are asked again after so long, and twice as long each time, up to the second. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

interface Known {
  /** The question that is under way. */
  asking: Promise<void> | undefined;
  /** A question that has no answer by then never will: on Workers one is killed with the request it rode on. */
  lostAt: number;
  /** Infinity = only after the worker has been down; a contradiction is looked at again. */
  askAt: number;
  retryMs: number;
  problems: readonly string[];
}

export interface EngineFactsOptions {
  fleet: Fleet;
  ask: Ask;
  clock: Clock;
  /** A worker is not what the configuration says; told once per change. */
  onProblems(worker: Worker, problems: readonly string[]): void;
}

/**
 * What engines tell about themselves: SGLang's server info (bootstrap port, ranks, role, model) and Mooncake's engine ids. Asked in the
 * background when a worker is new and when it has come back from being down, since it may have come back as another. A request waits
 * for it only where a leg would else go without (`introduce`): for Mooncake's ids, and the first time for SGLang's port where none is
 * configured. What the configuration says is never overruled: a difference is reported.
 */
export class EngineFacts {
  readonly #options: EngineFactsOptions;
  readonly #known = new WeakMap<Worker, Known>();

  constructor(options: EngineFactsOptions) {
    this.#options = options;
  }

  /** Asks those that are due, the rest with the next call. The promise is of their answers; nobody has to await it, it never rejects. */
  run(atMost = Infinity): Promise<void> {
    const { fleet, clock } = this.#options;
    const now = clock.now();
    const asked: Promise<void>[] = [];
    for (const worker of fleet.workers()) {
      if (asked.length >= atMost) break;
      const before = this.#known.get(worker);
      if (before !== undefined && (this.#isAsking(before) || now < before.askAt)) continue;
      const question = questionFor(worker, fleet);
      if (question === undefined) continue;
      asked.push(this.#start(worker, question, before ?? this.#meet(worker)));
    }
    return asked.length === 0 ? NOTHING : Promise.all(asked).then(nothing);
  }

  /**
   * What a leg to this worker should not do without, asked for now: a request is waiting. All that wait share one question, and an engine
   * that has just failed to answer is not asked by each of them. Resolves with the answer or without.
   */
  introduce(worker: Worker): Promise<void> {
    const known = this.#known.get(worker) ?? this.#meet(worker);
    const { clock, fleet } = this.#options;
    const question = questionFor(worker, fleet);
    if (question === undefined) return NOTHING;
    let asking = this.#isAsking(known) ? known.asking : undefined;
    if (asking === undefined) {
      const tooSoon = known.askAt !== Infinity && clock.now() < known.askAt;
      if (tooSoon) return NOTHING;
      asking = this.#start(worker, question, known);
    }
    return question === "mooncake"
      ? this.#inTime(asking, LOST_MS)
      : this.#inTime(asking, GUESS_MS).then(() => settleFor(worker));
  }

  /**
   * Something went wrong with the worker: it may be another process now, with another engine id. With the old one decode waits for minutes
   * for blocks that never come, so it is forgotten and the next request asks first. What SGLang tells stays: it is configuration.
   */
  doubt(worker: Worker): void {
    if (worker.target.mooncake === undefined || questionFor(worker, this.#options.fleet) !== "mooncake") return;
    worker.learn({});
    this.again(worker);
  }

  /** The worker has been down: it may be another process now. */
  again(worker: Worker): void {
    const known = this.#known.get(worker);
    if (known === undefined) return;
    known.askAt = -Infinity;
    known.retryMs = FIRST_RETRY_MS;
  }

  /** Where the engine contradicts the configuration; empty when it does not, or has not told. */
  problems(worker: Worker): readonly string[] {
    return this.#known.get(worker)?.problems ?? [];
  }

  #meet(worker: Worker): Known {
    const known: Known = {
      asking: undefined,
      lostAt: Infinity,
      askAt: -Infinity,
      retryMs: FIRST_RETRY_MS,
      problems: [],
    };
    this.#known.set(worker, known);
    return known;
  }

  #start(worker: Worker, question: Question, known: Known): Promise<void> {
    known.lostAt = this.#options.clock.now() + LOST_MS;
    const asking = this.#ask(worker, question, known, () => known.asking === asking);
    known.asking = asking;
    return asking;
  }

  #isAsking(known: Known): boolean {
    if (known.asking === undefined) return false;
    if (this.#options.clock.now() < known.lostAt) return true;
    known.asking = undefined;
    known.askAt = -Infinity;
    return false;
  }

  /** A request waits for an answer no longer than one may take; the question may ride on another request. */
  #inTime(asking: Promise<void>, ms: number): Promise<void> {
    return within(asking, ms, this.#options.clock);
  }

  async #ask(worker: Worker, question: Question, known: Known, isLatest: () => boolean): Promise<void> {
    // Set before the answer: a flap while the question is under way asks again.
    known.askAt = Infinity;
    const { ask, clock } = this.#options;
    const answered =
      question === "mooncake" ? await this.#askMooncake(worker, ask) : await this.#askSglang(worker, ask, known);
    // Given up as lost meanwhile, and asked again.
    if (!isLatest()) return;
    known.asking = undefined;
    if (answered) {
      known.retryMs = FIRST_RETRY_MS;
      // Somebody is going to mend it, on either side, and perhaps so quickly that no probe sees the engine down.
      // Not all of a thousand at once.
      const ms = LONGEST_RETRY_MS + (worker.hash % LONGEST_RETRY_MS);
      if (known.problems.length > 0 && known.askAt === Infinity) known.askAt = clock.now() + ms;
      return;
    }
    settleFor(worker);
    if (known.askAt === Infinity) known.askAt = clock.now() + known.retryMs;
    known.retryMs = Math.min(known.retryMs * 2, LONGEST_RETRY_MS);
  }

  async #askSglang(worker: Worker, ask: Ask, known: Known): Promise<boolean> {
    const info = await askServerInfo(worker.url, worker.apiKey, ask);
    if (info === "unreachable") return false;
    worker.learn({ bootstrapPort: info?.bootstrapPort, dpSize: info?.dpSize });
    const problems = info === undefined ? [] : contradictions(worker, info);
    const changed = problems.join("\n") !== known.problems.join("\n");
    known.problems = problems;
    if (changed) this.#options.onProblems(worker, problems);
    return true;
  }

  async #askMooncake(worker: Worker, ask: Ask): Promise<boolean> {
    const { bootstrapHost, bootstrapPort } = worker.target;
    // The bootstrap server is no API server: it gets no key.
    const told = await ask(`http://${bootstrapHost}:${bootstrapPort}/query`, undefined);
    const ranks = told === "unreachable" || told.status !== 200 ? undefined : readMooncakeRanks(told.json);
    if (ranks === undefined) return false;
    worker.learn({ mooncake: ranks });
    return true;
  }
}

/** Asks at the newer path, then at the older. Undefined: somebody is there, and it is no SGLang server. */
export async function askServerInfo(
  url: string,
  key: string | undefined,
  ask: Ask,
): Promise<ServerInfo | undefined | "unreachable"> {
  for (const path of SERVER_INFO_PATHS) {
    const told = await ask(url + path, key);
    // A starting engine answers 503; that is no answer about itself.
    if (told === "unreachable" || told.status >= 500) return "unreachable";
    const info = told.status === 200 ? readServerInfo(told.json) : undefined;
    if (info !== undefined) return info;
  }
  return undefined;
}

type Question = "sglang" | "mooncake";

function questionFor(worker: Worker, fleet: Fleet): Question | undefined {
  if (worker.engine === "sglang") return "sglang";
  if (worker.engine !== "vllm" || worker.role !== "prefill") return undefined;
  const pool = fleet.model(worker.model)?.pools.find((candidate) => candidate.name === worker.pool);
  return pool?.connector === "mooncake" ? "mooncake" : undefined;
}

function contradictions(worker: Worker, info: ServerInfo): string[] {
  const { bootstrapPort, dpSize } = worker.configured;
  const found: string[] = [];
  const differ = (what: string, configured: string | number, told: string | number | undefined): void => {
    if (told !== undefined && told !== configured)
      found.push(`${what} is configured as ${configured}, the engine says ${told}`);
  };
  differ("the role", worker.role, info.role);
  differ("the model", worker.model, info.model);
  if (worker.role === "prefill") {
    if (bootstrapPort !== undefined) differ("the bootstrap port", bootstrapPort, info.bootstrapPort);
    if (dpSize !== undefined) differ("the data-parallel size", dpSize, info.dpSize);
  }
  return found;
}

/** The engine has had its time to tell: until it does, requests go by the guess. */
function settleFor(worker: Worker): void {
  if (worker.target.guessed === true) worker.learn({});
}

const NOTHING = Promise.resolve();

function nothing(): void {}
