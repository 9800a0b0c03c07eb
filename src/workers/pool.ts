import type { PoolConfig } from "../config/schema.ts";
import type { Connector, EngineName } from "../engines/dialect.ts";
import type { Policy } from "./policy.ts";
import type { Worker, WorkerRole } from "./worker.ts";
import { WorkerSet } from "./worker-set.ts";

/** What of a pool may change at run time. */
export type PoolSettings = Pick<PoolConfig, "cancel" | "region" | "connector">;

/** `anytime` | `deferred`: when the legs may be torn down (contract section 6). */
export type CancelMode = PoolConfig["cancel"];

/** One KV domain: any of its prefill workers can reach any of its decode workers. */
export class Pool {
  readonly name: string;
  /** Id of the model it serves. */
  readonly model: string;
  readonly engine: EngineName;
  /** The pool's name among all models; equal in every router. */
  readonly topic: string;
  connector: Connector | undefined;
  cancel: CancelMode;
  region: string | undefined;
  readonly #sets: Record<WorkerRole, WorkerSet> = {
    prefill: new WorkerSet(),
    decode: new WorkerSet(),
    aggregated: new WorkerSet(),
  };
  #policies: Record<WorkerRole, Policy>;
  #retired: Worker[] = [];

  constructor(
    name: string,
    model: string,
    engine: EngineName,
    settings: PoolSettings,
    policies: Record<WorkerRole, Policy>,
  ) {
    this.name = name;
    this.model = model;
    this.engine = engine;
    this.topic = `${model}/${name}`;
    this.cancel = settings.cancel;
    this.region = settings.region;
    this.connector = settings.connector;
    this.#policies = policies;
  }

  get prefill(): readonly Worker[] {
    return this.#sets.prefill.members;
  }

  get decode(): readonly Worker[] {
    return this.#sets.decode.members;
  }

  /** The aggregated ones: no split. */
  get workers(): readonly Worker[] {
    return this.#sets.aggregated.members;
  }

  /** A worker is out. What it has in hand runs on, and counts at its address for as long as it does. */
  retire(worker: Worker): void {
    this.#retired = this.#retired.filter(isBusy);
    if (isBusy(worker)) this.#retired.push(worker);
  }

  /** Workers that are out and still have requests in hand. */
  retired(): readonly Worker[] {
    return this.#retired.filter(isBusy);
  }

  /** Requests in hand at an address, of whichever worker: another name or role makes another worker of one engine. */
  inHandAt(url: string): number {
    let requests = 0;
    for (const worker of [...this.members(), ...this.#retired])
      if (worker.url === url) requests += worker.load.requests;
    return requests;
  }

  /** Those of all roles. */
  members(): Worker[] {
    return [...this.prefill, ...this.decode, ...this.workers];
  }

  set(role: WorkerRole): WorkerSet {
    return this.#sets[role];
  }

  policy(role: WorkerRole): Policy {
    return this.#policies[role];
  }

  /** All usable workers of a role, the avoided ones among them. A new array. */
  usable(role: WorkerRole, now: number): Worker[] {
    return this.#sets[role].members.filter((worker) => worker.usable(now));
  }

  /** Whether a split request could be served. */
  splits(now: number): boolean {
    return this.#sets.prefill.serving(now) && this.#sets.decode.serving(now);
  }

  /** Whether any path could be served: split or aggregated (contract section 3, /ready). */
  serving(now: number): boolean {
    return this.splits(now) || this.#sets.aggregated.serving(now);
  }

  /** Requests in hand per worker that can take one; Infinity without any. Compares pools that are equally near. */
  pressure(now: number): number {
    let requests = 0;
    let weight = 0;
    for (const role of ["decode", "aggregated"] as const) {
      for (const worker of this.#sets[role].candidates(now)) {
        requests += worker.load.requests + worker.elsewhere.requests;
        weight += worker.weight;
      }
    }
    return weight === 0 ? Infinity : requests / weight;
  }

  /** New settings at run time. Policies are replaced only when their names changed, so that indexes and cursors live on. */
  configure(settings: PoolSettings, policies: Record<WorkerRole, Policy>): void {
    this.cancel = settings.cancel;
    this.region = settings.region;
    this.connector = settings.connector;
    const roles: WorkerRole[] = ["prefill", "decode", "aggregated"];
    for (const role of roles) {
      if (this.#policies[role].name !== policies[role].name) this.#policies[role] = policies[role];
    }
  }
}

function isBusy({ load }: Worker): boolean {
  return load.requests > 0;
}
