/**
 * A name that has answered so often in a row without an address lists it no longer. One short answer is a readiness probe that failed once,
 * or a DNS server that is behind the others.
 */
const GONE_AFTER = 3;

interface Address {
  /** The DNS has listed it; else it is known for what was said of it alone. */
  listed: boolean;
  /** Somebody has taken its worker out by hand. */
  dismissed: boolean;
  /** Somebody drains who is there by hand. */
  drained: boolean;
  /** By name that lists it: how many of its last answers lacked it. */
  readonly missed: Map<object, number>;
}

/**
 * The addresses of one pool: which of its names list them, and what people have said of who is there. That holds until the address is gone,
 * whatever becomes of the worker, because the same engine may come back as another one.
 */
export class DnsAddresses {
  readonly #known = new Map<string, Address>();

  get size(): number {
    return this.#known.size;
  }

  isDismissed(url: string): boolean {
    return this.#known.get(url)?.dismissed ?? false;
  }

  /** `names`: all of the pool. One whose answer is under way may be the first to list it. */
  dismiss(url: string, names: readonly object[]): void {
    const address = this.#address(url);
    address.dismissed = true;
    // Deleting it and letting it join again is how a drained worker is brought back.
    address.drained = false;
    // Only where no name lists it: one that finds nobody for months must not keep it out for the next pod that comes to its address.
    if (address.missed.size === 0) for (const name of names) address.missed.set(name, 0);
    if (address.missed.size === 0) this.#known.delete(url);
  }

  isDrained(url: string): boolean {
    return this.#known.get(url)?.drained ?? false;
  }

  keepDrained(url: string): void {
    this.#address(url).drained = true;
  }

  letBack(url: string): void {
    const address = this.#known.get(url);
    if (address !== undefined) address.drained = false;
  }

  /** A configuration wants those of them that `wants` says. */
  readmit(wants: (url: string) => boolean): void {
    for (const [url, address] of this.#known) if (address.dismissed && wants(url)) address.dismissed = false;
  }

  /**
   * A name's answer. Returns the addresses that are gone with it: who comes there next is somebody else. `stays`: somebody is there with or
   * without the DNS.
   */
  answered(name: object, urls: ReadonlySet<string>, stays: (url: string) => boolean): string[] {
    this.listedBy(name, urls);
    const gone: string[] = [];
    for (const [url, address] of this.#known) {
      const missed = address.missed.get(name);
      if (missed === undefined || urls.has(url)) continue;
      if (missed + 1 < GONE_AFTER) address.missed.set(name, missed + 1);
      else address.missed.delete(name);
      if (address.missed.size > 0) continue;
      if (stays(url)) {
        address.listed = false;
        address.dismissed = false;
        continue;
      }
      if (address.listed) gone.push(url);
      this.#known.delete(url);
    }
    return gone;
  }

  /** A name lists these, or did when it was configured last. */
  listedBy(name: object, urls: Iterable<string>): void {
    for (const url of urls) {
      const address = this.#address(url);
      address.listed = true;
      address.missed.set(name, 0);
    }
  }

  /** Names that are configured no longer; what they listed, and what no name lists yet, is expected of those that are new. */
  replace(names: readonly object[], heirs: readonly object[]): void {
    for (const { missed } of this.#known.values()) {
      const left = names.filter((name) => missed.delete(name));
      if (left.length === 0 && missed.size > 0) continue;
      for (const heir of heirs) missed.set(heir, missed.get(heir) ?? 0);
    }
  }

  /** Forgets those that no name lists, but for a drain where somebody is still there. */
  tidy(isThere: (url: string) => boolean): void {
    for (const [url, { missed, drained }] of this.#known) {
      if (missed.size === 0 && !(drained && isThere(url))) this.#known.delete(url);
    }
  }

  #address(url: string): Address {
    const known = this.#known.get(url);
    if (known !== undefined) return known;
    const address: Address = { listed: false, dismissed: false, drained: false, missed: new Map() };
    this.#known.set(url, address);
    return address;
  }
}
