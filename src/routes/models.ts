import type { Context } from "hono";
import * as v from "valibot";
import type { ClientKey } from "../config/secrets.ts";
import { asFailure, Failure } from "../errors/failure.ts";
import { smallText } from "../legs/small-body.ts";
import { mayUse } from "../middleware/may-use.ts";
import type { Model } from "../workers/fleet.ts";
import type { Pool } from "../workers/pool.ts";
import type { Worker } from "../workers/worker.ts";
import type { RouteDeps } from "./deps.ts";
import { errorResponse } from "./error-response.ts";
import { json } from "./json-response.ts";
import { requestId } from "./request-id.ts";

const ASK_MS = 2_000;
/** On Workers a request has six connections. */
const ASKED_TOGETHER = 3;
/** What engines say of a model changes with a restart; asking on each listing would let clients load the engines. */
const FRESH_MS = 10_000;

/** A list of a thousand adapters is a tenth of it. */
const LISTING_BYTES = 4_194_304;

const listing = v.looseObject({ data: v.array(v.looseObject({ id: v.string() })) });

type Entry = { id: string; [field: string]: unknown };

/** The names of a model that a key may use: what others exist is none of its holder's business. */
function namesFor(client: ClientKey | undefined, { id, aliases, adapters }: Model): string[] {
  return [id, ...aliases, ...adapters].filter((name) => mayUse(client, id, name));
}

/** GET /v1/models and /v1/models/{id}: the union over pools, engine fields kept, aliases and adapters listed (contract section 3). */
export class ModelRoutes {
  readonly #deps: RouteDeps;
  readonly #known = new WeakMap<Pool, { at: number; entries: readonly Entry[] }>();

  constructor(deps: RouteDeps) {
    this.#deps = deps;
  }

  readonly list = async (c: Context): Promise<Response> => {
    try {
      const client = await this.#deps.keys.client(c.req.raw.headers);
      const models = this.#deps.services.fleet.models().filter((model) => namesFor(client, model).length > 0);
      const all = await Promise.all(
        models.map(async (model) => {
          const names = namesFor(client, model);
          return (await this.#entriesOf(model)).filter((entry) => names.includes(entry.id));
        }),
      );
      const entries = all.flat();
      return json(c, 200, { object: "list", data: entries });
    } catch (error) {
      return this.#error(c, error);
    }
  };

  readonly one = async (c: Context): Promise<Response> => {
    try {
      const client = await this.#deps.keys.client(c.req.raw.headers);
      const id = c.req.param("id") ?? "";
      const resolved = this.#deps.services.fleet.resolve(id);
      const hidden = resolved === undefined || !mayUse(client, resolved.model.id, id);
      const entries = hidden ? [] : await this.#entriesOf(resolved.model);
      const entry = entries.find((candidate) => candidate.id === id);
      if (entry === undefined) {
        throw new Failure("model_not_found", {
          status: 404,
          stage: "router",
          param: "model",
          message: `The model "${id.slice(0, 200)}" does not exist here`,
        });
      }
      return json(c, 200, entry);
    } catch (error) {
      return this.#error(c, error);
    }
  };

  /** The model as its engines describe it, then its aliases and adapters with the same fields. */
  async #entriesOf(model: Model): Promise<Entry[]> {
    const said = union(await Promise.all(model.pools.map((pool) => this.#ask(pool))));
    const own: Entry = said.find((entry) => entry.id === model.id) ??
      said[0] ?? { id: model.id, object: "model", created: 0, owned_by: "prefill-router" };
    const entries: Entry[] = [{ ...own, id: model.id }];
    for (const alias of model.aliases) entries.push({ ...own, id: alias, root: model.id });
    for (const adapter of model.adapters)
      entries.push(said.find((entry) => entry.id === adapter) ?? { ...own, id: adapter, parent: model.id });
    return entries;
  }

  /**
   * The first engine of a pool that answers, of a few asked together: one that hangs holds up nobody. The last known answer when none does.
   * A pool that has hung as a whole is left alone for a while, else each listing would wait for it.
   */
  async #ask(pool: Pool): Promise<readonly Entry[]> {
    const { clock } = this.#deps.services;
    const now = clock.now();
    const known = this.#known.get(pool);
    if (known !== undefined && now - known.at < FRESH_MS) return known.entries;
    const workers = [...pool.decode, ...pool.workers, ...pool.prefill].filter((worker) => !worker.draining);
    workers.sort((a, b) => Number(b.usable(now)) - Number(a.usable(now)));
    const said = await firstKnown(workers.slice(0, ASKED_TOGETHER).map((worker) => this.#askOne(worker)));
    const entries = said ?? known?.entries ?? [];
    const at = clock.now();
    if (said !== undefined || at - now >= ASK_MS) this.#known.set(pool, { at, entries });
    return entries;
  }

  /** With the worker's own key and nothing of the client's. */
  async #askOne(worker: Worker): Promise<readonly Entry[] | undefined> {
    const { transport, clock } = this.#deps.services;
    const controller = new AbortController();
    const stop = clock.after(ASK_MS, () => controller.abort());
    const headers: Record<string, string> = { accept: "application/json", "accept-encoding": "identity" };
    if (worker.apiKey !== undefined) headers.authorization = `Bearer ${worker.apiKey}`;
    try {
      const response = await transport.fetch(`${worker.url}/v1/models`, {
        method: "GET",
        headers,
        signal: controller.signal,
      });
      if (!response.ok) {
        await response.body?.cancel();
        return undefined;
      }
      return v.parse(listing, JSON.parse((await smallText(response, LISTING_BYTES)) ?? "")).data;
    } catch {
      return undefined;
    } finally {
      stop();
    }
  }

  #error(c: Context, error: unknown): Response {
    return errorResponse(asFailure(error), {
      requestId: requestId(c.req.raw.headers),
      mask: this.#deps.services.telemetry.mask,
    });
  }
}

/** Every id once, as the first pool that knows it describes it. */
function union(listings: readonly (readonly Entry[])[]): Entry[] {
  const byId = new Map<string, Entry>();
  for (const entry of listings.flat()) if (!byId.has(entry.id)) byId.set(entry.id, entry);
  return [...byId.values()];
}

/** The first that is not undefined, or undefined when all are. None of them rejects. */
function firstKnown<T>(asked: readonly Promise<T | undefined>[]): Promise<T | undefined> {
  return new Promise((resolve) => {
    for (const one of asked) one.then((value) => value !== undefined && resolve(value));
    Promise.all(asked).then(() => resolve(undefined));
  });
}
