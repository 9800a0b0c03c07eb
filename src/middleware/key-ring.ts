import type { ClientKey } from "../config/secrets.ts";
import { Failure } from "../errors/failure.ts";

/**
 * Keys of clients and of the admin. Compared by hash, in constant time: how long a comparison takes says nothing about the keys, nor
 * about how many there are.
 */
export class KeyRing {
  readonly #clients: { hash: Uint8Array; key: ClientKey }[] = [];
  #admin: Uint8Array | undefined;
  readonly #known: Promise<void>;
  readonly open: boolean;
  readonly hasAdmin: boolean;

  constructor(clients: readonly ClientKey[], admin: string | undefined) {
    this.open = clients.length === 0;
    this.hasAdmin = admin !== undefined;
    this.#known = this.#learn(clients, admin);
    this.#known.catch(() => {});
  }

  /** The client of a request; undefined where everybody is let in. Throws `unauthorized`. */
  async client(headers: Headers): Promise<ClientKey | undefined> {
    if (this.open) return undefined;
    await this.#known;
    const offered = offeredKey(headers);
    if (offered === undefined) throw unauthorized("A key is needed: authorization: Bearer, or x-api-key");
    const hash = await digest(offered);
    let found: ClientKey | undefined;
    for (const { hash: known, key } of this.#clients) if (equal(known, hash)) found = key;
    if (found === undefined) throw unauthorized("The key is not known");
    return found;
  }

  /** Whether a request carries the admin key. Throws `not_found` when there is none, `unauthorized` or `forbidden` when it is not the one. */
  async admin(headers: Headers): Promise<void> {
    if (!this.hasAdmin) throw new Failure("not_found", { status: 404, stage: "router", message: "No such route" });
    await this.#known;
    const offered = offeredKey(headers);
    if (offered === undefined) throw unauthorized("The admin key is needed: authorization: Bearer");
    const hash = await digest(offered);
    if (this.#admin !== undefined && equal(this.#admin, hash)) return;
    throw new Failure("forbidden", { status: 403, stage: "router", message: "This key may not do that" });
  }

  async #learn(clients: readonly ClientKey[], admin: string | undefined): Promise<void> {
    for (const key of clients) this.#clients.push({ hash: await digest(key.key), key });
    if (admin !== undefined) this.#admin = await digest(admin);
  }
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
