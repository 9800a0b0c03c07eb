import type { RouterConfig } from "../config/schema.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Fleet, WorkerKeys } from "../workers/fleet.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker } from "../workers/worker.ts";
import { DnsAddresses } from "./dns-addresses.ts";
import { type Entry, inPool, keyOf, namedWorkers, newEntry, type Place, placeOf } from "./dns-entry.ts";
import { hostOf, lookUp, type ResolveHost } from "./dns-lookup.ts";
import { memberConfig } from "./dns-member.ts";
import { type Former, isSettled } from "./former-name.ts";

export { namedWorkers } from "./dns-entry.ts";
export type { ResolveHost } from "./dns-lookup.ts";

/** How often a name is looked up again. Cluster DNS keeps its records for 5 to 30 s; asking more often would tell nothing new. */
const REFRESH_MS = 5_000;
/** A lookup that has not ended by then is taken as lost: a resolver that hangs must not end the refreshing. */
const LOST_MS = 30_000;

export interface DnsEvents {
  /** No name of the pool lists an address any longer, nor has in its last answers: who comes there next is somebody else. */
  onGone(model: string, pool: string, url: string): void;
  onJoin(worker: Worker): void;
  onLeave(worker: Worker): void;
  /** A name cannot be looked up (once per outage), or can again. Names no address. */
  onLookup(host: string, ok: boolean, reason: string): void;
}

/**
 * Workers whose address is a name (`dns+http://…`): one worker per address record, kept in step with the DNS, so that a headless
 * service of Kubernetes is a pool without its API. An address that disappears is a pod that ends or is not ready: its worker gets
 * nothing new and leaves when its last request has. A lookup that fails or tells of nobody changes nothing: the health checks know
 * better who is there than a DNS server in trouble.
 */
export class DnsWorkers {
  readonly #fleet: Fleet;
  readonly #resolve: ResolveHost;
  readonly #clock: Pick<Clock, "now">;
  readonly #events: DnsEvents;
  #entries = new Map<string, Entry>();
  /** Names that were configured, and whose members serve on until the names in their place are answered. */
  readonly #formers = new Map<string, Former<Entry>>();
  /** By pool. */
  readonly #pools = new Map<string, DnsAddresses>();
  /** Workers whose address is gone. */
  readonly #leaving = new Set<Worker>();
  #lookups = 0;

  constructor(fleet: Fleet, resolve: ResolveHost, clock: Pick<Clock, "now">, events: DnsEvents) {
    this.#fleet = fleet;
    this.#resolve = resolve;
    this.#clock = clock;
    this.#events = events;
  }

  /** Takes over the names of a configuration the fleet has taken over already. Members of names that stay keep their objects. */
  configure(config: Pick<RouterConfig, "models">, keys: WorkerKeys): void {
    const before = this.#entries;
    this.#entries = new Map();
    const named = namedWorkers(config).map((entry) => ({ ...entry, key: keyOf(entry) }));
    const kept = new Set(named.map(({ key }) => key));
    const gone = [...before].flatMap(([key, entry]) => (kept.has(key) ? [] : [entry]));
    for (const { model, pool, role, worker, key } of named) {
      const known = before.get(key) ?? this.#recall(key);
      const apiKey = worker.apiKeyEnv === undefined ? undefined : keys.get(worker.name);
      const entry = known ?? newEntry({ model, pool }, role, worker, apiKey);
      entry.config = worker;
      entry.apiKey = apiKey;
      // A pool may have lost all it had: who is there is asked now.
      entry.nextAt = -Infinity;
      for (const [url, member] of entry.members) {
        if (this.#holds(member)) this.#fleet.configure(member.name, memberConfig(worker, url, member.name), apiKey);
        else entry.members.delete(url);
      }
      this.#entries.set(key, entry);
    }
    const fresh = [...this.#entries].flatMap(([key, entry]) => (before.has(key) ? [] : [entry]));
    for (const [place, addresses] of this.#pools) {
      addresses.replace(gone, inPool(fresh, placeOf(place)));
      // A configured worker that a reload has brought back is wanted again.
      addresses.readmit((url) => this.#at(placeOf(place), url)?.origin === "config");
    }
    for (const entry of gone) this.#formers.set(keyOf({ ...entry, worker: entry.config }), this.#former(entry));
    for (const former of this.#formers.values()) {
      this.#bequeath(former, fresh);
      if (!isSettled(former, this.#clock.now())) this.#restore(former.name);
    }
    this.#settle();
    for (const worker of this.#leaving) if (!this.#holds(worker)) this.#handOver(worker);
    this.#sweep();
    // An address may have lost its configured worker; whether the DNS answers now says nothing about who is there.
    for (const entry of this.#entries.values()) this.#welcomeAll(entry);
    this.#tidy();
  }

  /** Looks up the names that are due. The promise is of their answers; nobody has to await it, it never rejects. */
  run(): Promise<void> {
    this.#settle();
    this.#sweep();
    const now = this.#clock.now();
    const lookups: Promise<void>[] = [];
    for (const entry of this.#entries.values()) {
      if (now < (entry.lookup === 0 ? entry.nextAt : entry.lostAt)) continue;
      entry.nextAt = now + REFRESH_MS;
      entry.lostAt = now + LOST_MS;
      lookups.push(this.#look(entry));
    }
    return lookups.length === 0 ? NOTHING : Promise.all(lookups).then(nothing);
  }

  /** Somebody has taken a worker out by hand: its address must not bring it back with the next lookup. */
  dismiss(worker: Worker): void {
    this.#leaving.delete(worker);
    this.#disown(worker);
    this.#addresses(worker).dismiss(worker.url, inPool(this.#entries.values(), worker));
  }

  /** Somebody drains a worker by hand: that its address comes back, or another object stands for it, must not undo it. */
  keepDrained(worker: Worker): void {
    this.#addresses(worker).keepDrained(worker.url);
  }

  /** It is wanted again. */
  letBack(worker: Worker): void {
    this.#addresses(worker).letBack(worker.url);
    if (!this.#leaving.has(worker)) worker.draining = false;
  }

  async #look(entry: Entry): Promise<void> {
    this.#lookups += 1;
    const lookup = this.#lookups;
    entry.lookup = lookup;
    const { url } = entry.config;
    const { urls, reason } = await lookUp(this.#resolve, url);
    // Another one has begun, or the name has left the configuration.
    if (entry.lookup !== lookup || ![...this.#entries.values()].includes(entry)) return;
    entry.lookup = 0;
    const ok = urls.size > 0;
    if (ok === entry.failing) this.#events.onLookup(hostOf(url), ok, ok ? "" : reason);
    entry.failing = !ok;
    if (ok) this.#follow(entry, urls);
  }

  #follow(entry: Entry, urls: ReadonlySet<string>): void {
    entry.listed = urls;
    entry.answered = true;
    const addresses = this.#addresses(entry);
    // A configured worker, or one that joined by itself, is the same one with and without the DNS.
    const gone = addresses.answered(entry, urls, (url) => (this.#at(entry, url)?.origin ?? "dns") !== "dns");
    for (const url of gone) this.#events.onGone(entry.model, entry.pool, url);
    for (const [url, worker] of entry.members) {
      // Gone from the fleet without us.
      if (!this.#holds(worker)) entry.members.delete(url);
      else if (urls.has(url)) this.#stay(worker);
      else this.#letGo(worker);
    }
    this.#welcomeAll(entry);
    this.#settle();
    this.#sweep();
  }

  #former(name: Entry): Former<Entry> {
    // An answer that is under way comes too late.
    name.lookup = 0;
    return { name, heirs: [], since: this.#clock.now() };
  }

  /** A name that is configured again before its members have left, as when a reload is taken back, has them at once. */
  #recall(key: string): Entry | undefined {
    const entry = this.#formers.get(key)?.name;
    if (entry === undefined) return undefined;
    this.#formers.delete(key);
    entry.answered = false;
    this.#addresses(entry).listedBy(entry, entry.listed);
    return entry;
  }

  #bequeath(former: Former<Entry>, fresh: readonly Entry[]): void {
    const entries = [...this.#entries.values()];
    const { name, heirs } = former;
    former.heirs = [
      ...heirs.filter((heir) => entries.includes(heir) && !fresh.includes(heir)),
      ...inPool(fresh, name).filter(({ role }) => role === name.role),
    ];
  }

  /** A reload has given a member's name to another worker, or its address is configured by itself no longer. */
  #restore(former: Entry): void {
    if (this.#poolOf(former) === undefined) return;
    for (const url of former.listed) {
      if (this.#at(former, url) === undefined && !this.#addresses(former).isDismissed(url)) this.#join(former, url);
    }
  }

  /** Lets go of members of former names: to a name that lists them, or out when it is known that none does. */
  #settle(): void {
    for (const [key, former] of this.#formers) {
      const settled = isSettled(former, this.#clock.now());
      const { members } = former.name;
      for (const [url, worker] of members) {
        if (!this.#holds(worker)) members.delete(url);
        else if (settled || this.#heir(worker) !== undefined) this.#letGo(worker);
      }
      if (settled || members.size === 0) this.#formers.delete(key);
    }
  }

  #welcomeAll(entry: Entry): void {
    const addresses = this.#addresses(entry);
    for (const url of entry.listed) {
      if (!entry.members.has(url) && !addresses.isDismissed(url)) this.#welcome(entry, url);
    }
  }

  /** An address that is configured by itself too is one worker, the configured one; so is one that two names list. */
  #welcome(entry: Entry, url: string): void {
    if (this.#poolOf(entry) === undefined) return;
    const there = this.#at(entry, url);
    if (there === undefined) this.#join(entry, url);
    else if (this.#leaving.has(there) || this.#isLeft(there)) this.#takeOver(entry, there);
  }

  /** A member of a former name. */
  #isLeft(worker: Worker): boolean {
    return [...this.#formers.values()].some(({ name }) => name.members.get(worker.url) === worker);
  }

  /** The address of one that leaves, or of a former name, is listed under another name: it need not end its requests first to be wanted again. */
  #takeOver(entry: Entry, worker: Worker): void {
    const { url, role, name } = worker;
    if (role !== entry.role) {
      // A role is for life. What it has in hand runs on, and an address stays drained in another role too.
      this.#takeOut(worker);
      this.#join(entry, url);
      return;
    }
    this.#disown(worker);
    entry.members.set(url, worker);
    this.#fleet.configure(name, memberConfig(entry.config, url, name), entry.apiKey);
    this.#stay(worker);
  }

  #join(entry: Entry, url: string): Worker {
    const { model, pool, role, config, apiKey } = entry;
    const name = this.#freeName(config.name);
    const worker = this.#fleet.add(
      { model, pool, role, worker: memberConfig(config, url, name), origin: "dns" },
      apiKey,
    );
    worker.draining = this.#isDrained(worker);
    entry.members.set(url, worker);
    this.#events.onJoin(worker);
    return worker;
  }

  /** Numbers, not addresses: names go to clients and into metrics, and pods that follow each other share few of them. */
  #freeName(base: string): string {
    for (let n = 1; ; n++) if (this.#fleet.worker(`${base}-${n}`) === undefined) return `${base}-${n}`;
  }

  /** Whether it is in the fleet and there because the DNS lists it; one that a reload has taken over as configured is not ours any more. */
  #holds(worker: Worker): boolean {
    return this.#fleet.worker(worker.name) === worker && worker.origin === "dns";
  }

  #poolOf({ model, pool }: Place): Pool | undefined {
    return this.#fleet.model(model)?.pools.find((candidate) => candidate.name === pool);
  }

  /** The pool's worker at an address, whatever its role and wherever it came from. */
  #at(place: Place, url: string): Worker | undefined {
    return this.#poolOf(place)
      ?.members()
      .find((member) => member.url === url);
  }

  #isDrained(worker: Worker): boolean {
    return this.#addresses(worker).isDrained(worker.url);
  }

  #addresses({ model, pool }: Place): DnsAddresses {
    const key = JSON.stringify([model, pool]);
    const known = this.#pools.get(key);
    if (known !== undefined) return known;
    const addresses = new DnsAddresses();
    this.#pools.set(key, addresses);
    return addresses;
  }

  /** Nothing is kept of addresses that no name lists and nobody is at. */
  #tidy(): void {
    for (const [place, addresses] of this.#pools) {
      addresses.tidy((url) => this.#at(placeOf(place), url) !== undefined);
      if (addresses.size === 0) this.#pools.delete(place);
    }
  }

  /** The names of a pool that list an address. */
  #listing(place: Place, url: string): Entry[] {
    return inPool(this.#entries.values(), place).filter(({ listed }) => listed.has(url));
  }

  /** A name of its role that lists it. */
  #heir(worker: Worker): Entry | undefined {
    return this.#listing(worker, worker.url).find(({ role }) => role === worker.role);
  }

  /** Its name lists it no longer, or is gone itself. */
  #letGo(worker: Worker): void {
    if (!this.#holds(worker)) return;
    const other = this.#heir(worker);
    if (other !== undefined) this.#takeOver(other, worker);
    else if (!this.#leaving.has(worker)) {
      worker.draining = true;
      this.#leaving.add(worker);
    }
  }

  #stay(worker: Worker): void {
    if (this.#leaving.delete(worker)) worker.draining = this.#isDrained(worker);
  }

  /** A leaving worker whose address is configured by itself now: who serves there has not inherited that the DNS no longer lists it. */
  #handOver(worker: Worker): void {
    this.#leaving.delete(worker);
    const heir = this.#at(worker, worker.url);
    if (heir !== undefined) heir.draining = this.#isDrained(heir);
  }

  /** Takes out the leaving ones that are done. */
  #sweep(): void {
    for (const worker of this.#leaving) {
      if (worker.load.requests === 0) this.#takeOut(worker);
    }
  }

  #takeOut(worker: Worker): void {
    this.#leaving.delete(worker);
    this.#disown(worker);
    if (!this.#holds(worker)) return;
    this.#fleet.remove(worker.name);
    this.#tidy();
    this.#events.onLeave(worker);
  }

  #disown(worker: Worker): void {
    const formers = [...this.#formers.values()].map(({ name }) => name);
    for (const { members } of [...this.#entries.values(), ...formers]) {
      if (members.get(worker.url) === worker) members.delete(worker.url);
    }
  }
}

const NOTHING = Promise.resolve();

function nothing(): void {}
