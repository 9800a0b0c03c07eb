import { ConfigError, type Secrets } from "../config/load.ts";
import type { RouterConfig } from "../config/schema.ts";
import { DNS_PREFIX } from "../config/worker-url.ts";
import { Failure } from "../errors/failure.ts";
import { fetchProbe } from "../legs/fetch-probe.ts";
import { entryOf, type Mark } from "../shared/marks.ts";
import { SharedState, type SharedStateOptions } from "../shared/shared-state.ts";
import type { Pool } from "../workers/pool.ts";
import { Prober } from "../workers/prober.ts";
import type { Worker } from "../workers/worker.ts";
import { type Ask, askOver } from "./ask.ts";
import { DnsWorkers, namedWorkers, type ResolveHost } from "./dns-workers.ts";
import { EngineFacts } from "./engine-facts.ts";
import { freeName, isGenerated } from "./free-name.ts";
import { join } from "./join.ts";
import { readJoinBody } from "./join-body.ts";
import { applyConfig, type ReloadReport, type ReloadTargets } from "./reload.ts";
import { type WorkerInfo, type WorkerList, workerInfo, workerList } from "./worker-info.ts";

export interface FleetControlOptions extends ReloadTargets {
  secrets: Secrets;
  /** `tend` is called on a timer, and not with requests alone. */
  tendsSteadily(): boolean;
  /** Looks up the names of `dns+` workers; absent = the runtime cannot, and such workers are refused. */
  resolveHost?: ResolveHost | undefined;
  /** What routers share; absent = this one is alone. */
  shared?: Omit<SharedStateOptions, "fleet" | "clock" | "act" | "onReach" | "onRefused" | "onUntold"> | undefined;
}

/**
 * Everything that changes the fleet or learns about it beside the requests: the admin routes, reloads, health probes, DNS, and what
 * engines tell of themselves. It starts nothing by itself; the runtime calls `tend`.
 */
export class FleetControl {
  readonly prober: Prober;
  readonly #targets: ReloadTargets & Pick<FleetControlOptions, "tendsSteadily">;
  readonly #ask: Ask;
  readonly #facts: EngineFacts;
  readonly #dns: DnsWorkers | undefined;
  readonly #shared: SharedState | undefined;
  readonly #random: (() => number) | undefined;

  /** Throws a `ConfigError` for names to look up where nobody can. */
  constructor(options: FleetControlOptions) {
    this.#targets = options;
    const { config, fleet, transport, clock, telemetry } = options.services;
    const { log } = telemetry;
    this.prober = new Prober(
      fleet,
      fetchProbe(transport, clock, (name, result) => {
        telemetry.metrics.probe(name, result);
        const worker = result === "unreachable" ? fleet.worker(name) : undefined;
        if (worker !== undefined) this.doubt(worker);
      }),
      clock,
    );
    this.#ask = askOver(transport, clock);
    this.#facts = new EngineFacts({
      fleet,
      ask: this.#ask,
      clock,
      onProblems: (worker, problems) =>
        log.event(problems.length > 0 ? "warn" : "info", "worker_differs", {
          worker: worker.name,
          problems: problems.join("; "),
        }),
    });
    this.#dns =
      options.resolveHost === undefined
        ? undefined
        : new DnsWorkers(fleet, options.resolveHost, clock, {
            onJoin: (worker) => {
              log.event("info", "worker_joined", { worker: worker.name, origin: worker.origin });
              this.#shared?.joined(worker);
            },
            onGone: (model, pool, url) => this.#shared?.gone(model, pool, url),
            onLeave: (worker) => log.event("info", "worker_left", { worker: worker.name, origin: worker.origin }),
            onLookup: (host, ok, reason) =>
              log.event(ok ? "info" : "warn", "dns_lookup", { host, ok, reason: reason || undefined }),
          });
    this.#random = options.shared?.random;
    this.#shared =
      options.shared === undefined
        ? undefined
        : new SharedState({
            ...options.shared,
            fleet,
            clock,
            act: (pool, mark) => this.#obey(pool, mark),
            onExchange: (answered) => telemetry.metrics.storeExchange(answered),
            onReach: (reached, reason) => log.event(reached ? "info" : "warn", "store", { reached, reason }),
            onRefused: ({ worker }, reason) => log.event("warn", "worker_join_refused", { worker, reason }),
            onUntold: ({ model, name: pool }, marks) =>
              log.event(marks > 0 ? "warn" : "info", "marks_untold", { model, pool, marks }),
          });
    this.#followNames(config, options.secrets);
  }

  /**
   * What has to be done again and again: probes, lookups, questions to engines, each when its time has come. Called on a timer, several
   * times a second at most. No request waits for any of it; the promise is for platforms that want to keep the work alive, and never
   * rejects. `atMost`: probes and questions started by one call, for platforms with few connections.
   */
  tend(atMost = Infinity): Promise<unknown> {
    return Promise.all([
      this.prober.run(atMost).done,
      this.#dns?.run(),
      this.#facts.run(atMost),
      this.#shared?.run(atMost),
    ]);
  }

  /** A worker's health has turned. */
  healthChanged(worker: Worker, healthy: boolean): void {
    if (healthy) this.#facts.again(worker);
  }

  /** Asks a worker now for what a leg to it cannot do without. */
  introduce(worker: Worker): Promise<void> {
    return this.#facts.introduce(worker);
  }

  /** A request to the worker, or its probe, has failed. */
  doubt(worker: Worker): void {
    this.#facts.doubt(worker);
  }

  list(): WorkerList {
    const { fleet, clock } = this.#targets.services;
    return workerList(fleet, clock.now(), (worker) => this.#facts.problems(worker));
  }

  /** Throws a Failure 404 for a name nobody has; so do `remove` and `drain`. */
  one(name: string): WorkerInfo {
    return this.#info(this.#find(name));
  }

  /** Lets in what the body of `POST /workers` describes. Throws a Failure (400, 404, 409). */
  async add(text: string): Promise<{ worker: WorkerInfo; ignored: string[] }> {
    const { fleet, telemetry } = this.#targets.services;
    const body = readJoinBody(text);
    // Before the first request to the engine: whatever it echoes must not show the key.
    if (body.apiKey !== undefined) telemetry.learn({ models: [], secrets: [body.apiKey] });
    const worker = await join(fleet, body, this.#ask, this.#random);
    // A key is nothing for a store: the others would be sent away by the engine, so they are not told of the worker.
    if (body.apiKey === undefined)
      this.#shared?.mark(worker, { what: "join", role: worker.role, settings: entryOf(worker) });
    telemetry.log.event("info", "worker_joined", { worker: worker.name, origin: worker.origin });
    return { worker: this.#info(worker), ignored: body.ignored };
  }

  /** Takes a worker out at once; what it has in hand runs on, and is told as `load`. */
  remove(name: string): WorkerInfo {
    const worker = this.#find(name);
    this.#leave(worker);
    this.#shared?.mark(worker, { what: "leave" });
    return this.#info(worker);
  }

  /**
   * Gives a worker nothing new. It is drained when its `load` is 0; where routers share, when all others have said besides that they have
   * nothing in hand there.
   */
  drain(name: string): { worker: WorkerInfo; drained: boolean; inFlight: number } {
    const worker = this.#find(name);
    const { draining } = worker;
    this.#drain(worker);
    this.#shared?.drain(worker, draining);
    const inFlight = this.#inHandAt(worker);
    return { worker: this.#info(worker), drained: inFlight === 0 && this.#drainedElsewhere(worker), inFlight };
  }

  /** Where routers share only while requests come (Workers), one that streams may not have heard of the order: nobody knows. */
  #drainedElsewhere(worker: Worker): boolean {
    return this.#shared === undefined || (this.#targets.tendsSteadily() && this.#shared.drained(worker));
  }

  #inHandAt({ model, pool, url }: Worker): number {
    const known = this.#targets.services.fleet.model(model)?.pools.find(({ name }) => name === pool);
    return known?.inHandAt(url) ?? 0;
  }

  /** Lets go of what routers share. */
  close(): Promise<void> {
    return this.#shared?.close() ?? Promise.resolve();
  }

  /**
   * Takes over a checked configuration and its keys; see `applyConfig`. Throws and changes nothing when it cannot: a `ConfigError` for
   * names to look up where nobody can.
   */
  reload(config: RouterConfig, secrets: Secrets): ReloadReport {
    this.#refuseNames(config);
    const report = applyConfig(this.#targets, config, secrets);
    this.#followNames(config, secrets);
    this.#shared?.reloaded();
    const { log } = this.#targets.services.telemetry;
    const left = report.restart.length > 0;
    log.event(left ? "warn" : "info", "config_reloaded", {
      changed: report.changed.join(", "),
      needs_restart: left ? report.restart.join(", ") : undefined,
    });
    return report;
  }

  #leave(worker: Worker): void {
    const { fleet, telemetry } = this.#targets.services;
    this.#dns?.dismiss(worker);
    fleet.remove(worker.name);
    telemetry.log.event("info", "worker_left", { worker: worker.name, origin: worker.origin });
  }

  #drain(worker: Worker): void {
    const { fleet, telemetry } = this.#targets.services;
    this.#dns?.keepDrained(worker);
    fleet.drain(worker.name);
    telemetry.log.event("info", "worker_draining", { worker: worker.name, in_flight: worker.load.requests });
  }

  /** An operator has done it at another router. Throws a `JoinError` where it cannot be done here. */
  #obey(pool: Pool, { worker: name, url, what, role, settings }: Mark): void {
    const { fleet, telemetry } = this.#targets.services;
    const worker = pool.members().find((member) => (url === undefined ? member.name === name : member.url === url));
    if (what === "drain" && worker?.draining === false) this.#drain(worker);
    if (what === "leave" && worker !== undefined) this.#leave(worker);
    if (what !== "join" || role === undefined || settings === undefined || settings.url.startsWith(DNS_PREFIX)) return;
    if (worker !== undefined) {
      // Deleted and joined again elsewhere, which is how a drained worker is brought back.
      if (this.#dns === undefined) worker.draining = false;
      else this.#dns.letBack(worker);
      return;
    }
    const taken = fleet.worker(name) !== undefined && isGenerated(name);
    const free = taken ? freeName(fleet, role, this.#random) : name;
    const joined = fleet.add({ model: pool.model, pool: pool.name, role, worker: { ...settings, name: free } });
    telemetry.log.event("info", "worker_joined", { worker: joined.name, origin: joined.origin });
  }

  #followNames(config: RouterConfig, secrets: Secrets): void {
    this.#refuseNames(config);
    this.#dns?.configure(config, secrets.workerKeys);
  }

  #refuseNames(config: RouterConfig): void {
    if (this.#dns !== undefined) return;
    const names = namedWorkers(config);
    if (names.length === 0) return;
    throw new ConfigError(
      names.map(({ path }) => ({ path, message: "wanted an address: names cannot be looked up on this runtime" })),
    );
  }

  #find(name: string): Worker {
    const worker = this.#targets.services.fleet.worker(name);
    if (worker !== undefined) return worker;
    throw new Failure("not_found", {
      status: 404,
      stage: "router",
      message: `There is no worker "${name.slice(0, 200)}"`,
    });
  }

  #info(worker: Worker): WorkerInfo {
    return workerInfo(worker, this.#targets.services.clock.now(), this.#facts.problems(worker));
  }
}
