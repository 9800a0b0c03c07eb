import {
  type Exchanged,
  type InRecord,
  MOST_RECORDS,
  MOST_TEXT,
  type OpenStore,
  type OutRecord,
  type SharedStore,
} from "../shared/store.ts";
import { EXCHANGE } from "./redis-script.ts";

/** A command that takes longer is given up; after four such times of silence the connection is, too. */
const COMMAND_MS = 2_000;
const CONNECT_MS = 2_000;
/** A partition that heals must be noticed within a second. */
const RECONNECT_MS = 500;

/** The part of the library's client that is used here. */
interface Client {
  readonly isReady: boolean;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  evalSha(sha: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
  destroy(): void;
}

/** Redis or Valkey, from version 5 on; on Bun, Deno and Node. One connection, made at the first exchange. */
export const openRedisStore: OpenStore = ({ url, password }) => new RedisStore(url, password);

class RedisStore implements SharedStore {
  readonly #url: string;
  readonly #password: string | undefined;
  #client: Promise<Client> | undefined;
  /** What the connection has last failed with. */
  #trouble: string | undefined;
  #sha = "";

  constructor(url: string, password: string | undefined) {
    this.#url = url;
    this.#password = password;
  }

  async exchange(topic: string, write: readonly OutRecord[], since: number): Promise<Exchanged> {
    const client = await this.#connected();
    // Braces: all keys of a topic in one slot of a cluster. Encoded, so that no name can close them.
    const base = `prefill-router:{${encodeURIComponent(topic)}}`;
    const keys = [`${base}:values`, `${base}:versions`, `${base}:expiries`, `${base}:state`];
    const records = write.filter(({ text }) => text.length <= MOST_TEXT);
    const args = [String(since), String(MOST_RECORDS)];
    for (const { key, text, ttlMs } of records) args.push(key, text, String(Math.max(1, Math.round(ttlMs))));
    return readAnswer(await within(COMMAND_MS, this.#run(client, keys, args)));
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(nobody);
    this.#client = undefined;
    client?.destroy();
  }

  async #run(client: Client, keys: string[], args: string[]): Promise<unknown> {
    try {
      if (this.#sha !== "") return await client.evalSha(this.#sha, { keys, arguments: args });
    } catch (error) {
      // Another server, or one that was restarted, does not know the script.
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    }
    this.#sha = await sha1(EXCHANGE);
    return client.eval(EXCHANGE, { keys, arguments: args });
  }

  async #connected(): Promise<Client> {
    this.#client ??= this.#open();
    const client = await this.#client;
    if (client.isReady) return client;
    throw new Error(this.#trouble ?? "The store is not connected");
  }

  async #open(): Promise<Client> {
    const { createClient } = await import("@redis/client");
    const client = createClient({
      url: this.#url,
      ...(this.#password === undefined ? {} : { password: this.#password }),
      // What waits for a connection would be old when it is sent.
      disableOfflineQueue: true,
      // Exchanges are the pings, one every two seconds at least: a socket that is silent for longer is dead.
      socket: { connectTimeout: CONNECT_MS, socketTimeout: 4 * COMMAND_MS, reconnectStrategy: () => RECONNECT_MS },
    });
    // Without a listener an error would end the process; who needs to know hears it from the exchange.
    client.on("error", (error: unknown) => {
      this.#trouble = error instanceof Error && error.message !== "" ? error.message : undefined;
    });
    client.on("ready", () => {
      this.#trouble = undefined;
    });
    // It goes on trying by itself; the first exchange waits for the first connection, if it comes in time.
    await within(CONNECT_MS, client.connect()).catch(nobody);
    return client;
  }
}

/** Whatever the server says that is not the script's answer is an error, and nothing worse. */
function readAnswer(answer: unknown): Exchanged {
  if (!Array.isArray(answer) || answer.length % 3 !== 2) throw new Error("The store answered with something else");
  const parts = answer.map(String);
  const records: InRecord[] = [];
  for (let at = 2; at < parts.length; at += 3) {
    records.push({ key: parts[at]!, ageMs: Number(parts[at + 1]), text: parts[at + 2]! });
  }
  const epoch = Number(parts[0]);
  const cursor = Number(parts[1]);
  if (!Number.isSafeInteger(epoch) || !Number.isSafeInteger(cursor))
    throw new Error("The store answered with something else");
  return { epoch, cursor, records };
}

/** A command that has been sent cannot be taken back; whoever waits for it can go. */
async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`The store has not answered within ${ms} ms`)), ms);
  });
  work.catch(nobody);
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

async function sha1(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-1", new TextEncoder().encode(text)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function nobody(): undefined {
  return undefined;
}
