import type { ClientKey } from "../config/secrets.ts";
import { Failure } from "../errors/failure.ts";

/**
 * Keys of clients and of the admin. Compared by hash, in constant time: how long a comparison takes says nothing about the keys, nor
 * about how many there are.
 */
export class KeyRing {
  #clients: readonly ClientKey[];
  #admin: string | undefined;
  /** Absent until a request has needed it, and after a change. */
  #hashes: Hashes | undefined;

  constructor(clients: readonly ClientKey[], admin: string | undefined) {
    this.#clients = clients;
    this.#admin = admin;
  }

  /** No client needs a key. */
  get open(): boolean {
    return this.#clients.length === 0;
  }

  get hasAdmin(): boolean {
    return this.#admin !== undefined;
  }

  /** For what routers with the same admin key prove to each other; never to be shown. */
  get adminKey(): string | undefined {
    return this.#admin;
  }

  /** Other keys from now on, all of them at once. */
  configure(clients: readonly ClientKey[], admin: string | undefined): void {
    this.#clients = clients;
    this.#admin = admin;
    this.#hashes = undefined;
  }

  /** The client of a request; undefined where everybody is let in. Throws `unauthorized`. */
  async client(headers: Headers): Promise<ClientKey | undefined> {
    if (this.open) return undefined;
    const { clients } = this.#hashes ?? (await this.#learn());
    const offered = offeredKey(headers);
    if (offered === undefined) throw unauthorized("A key is needed: authorization: Bearer, or x-api-key");
    const hash = await digest(offered);
    let found: ClientKey | undefined;
    for (const { hash: known, key } of clients) if (equal(known, hash)) found = key;
    if (found === undefined) throw unauthorized("The key is not known");
    return found;
  }

  /** Whether a request carries the admin key. Throws `not_found` when there is none, `unauthorized` or `forbidden` when it is not the one. */
  async admin(headers: Headers): Promise<void> {
    if (!this.hasAdmin) throw new Failure("not_found", { status: 404, stage: "router", message: "No such route" });
    const { admin } = this.#hashes ?? (await this.#learn());
    const offered = offeredKey(headers);
    if (offered === undefined) throw unauthorized("The admin key is needed: authorization: Bearer");
    const hash = await digest(offered);
    if (admin !== undefined && equal(admin, hash)) return;
    throw new Failure("forbidden", { status: 403, stage: "router", message: "This key may not do that" });
  }

  /**
   * With a request and not before: a Worker may not hash while its module is loaded. Requests that come before the hashes are there
   * make their own, since on Workers only plain data may be shared: another request's promise may never resolve.
   */
  async #learn(): Promise<Hashes> {
    const clients = this.#clients;
    const hashes = await hashAll(clients, this.#admin);
    // Not if the keys have changed meanwhile: then this request is judged by the ones it came under, the next by the new ones.
    if (this.#clients === clients) this.#hashes = hashes;
    return hashes;
  }
}

interface Hashes {
  clients: readonly { hash: Uint8Array; key: ClientKey }[];
  admin: Uint8Array | undefined;
}

async function hashAll(clients: readonly ClientKey[], admin: string | undefined): Promise<Hashes> {
  return {
    clients: await Promise.all(clients.map(async (key) => ({ hash: await digest(key.key), key }))),
    admin: admin === undefined ? undefined : await digest(admin),
  };
}

function offeredKey(headers: Headers): string | undefined {
  const authorization = headers.get("authorization");
  if (authorization !== null) {
    const [scheme, key] = authorization.split(/ +/, 2);
    if (scheme?.toLowerCase() === "bearer" && key) return key;
  }
  return headers.get("x-api-key") || undefined;
}

async function digest(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i]! ^ b[i]!;
  return difference === 0;
}

function unauthorized(message: string): Failure {
  return new Failure("unauthorized", { status: 401, stage: "router", message });
}
